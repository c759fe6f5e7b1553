// Streams, events and functions of the program that are queued.
#include "cudart.h"

static int get_device(CUstream stream, int *device)
{
	int first = 0;
	unsigned flags;
	int r = cuStreamGetFlags(stream, &flags);
	return r ? r : store(device, &first, sizeof first);
}

API(cudaStreamCreate, (CUstream *stream), cuStreamCreate(stream, 0))
API(cudaStreamCreateWithFlags, (CUstream *stream, unsigned flags), cuStreamCreate(stream, flags))
API(cudaStreamCreateWithPriority, (CUstream *stream, unsigned flags, int priority), cuStreamCreateWithPriority(stream, flags, priority))
API(cudaStreamDestroy, (CUstream stream), cuStreamDestroy_v2(stream))
BOTH(cudaStreamSynchronize, _ptsz, (CUstream stream), cuStreamSynchronize(ON(stream)))
BOTH(cudaStreamQuery, _ptsz, (CUstream stream), cuStreamQuery(ON(stream)))
BOTH(cudaStreamWaitEvent, _ptsz, (CUstream stream, CUevent event, unsigned flags), cuStreamWaitEvent(ON(stream), event, flags))
BOTH(cudaStreamGetFlags, _ptsz, (CUstream stream, unsigned *flags), cuStreamGetFlags(ON(stream), flags))
BOTH(cudaStreamGetPriority, _ptsz, (CUstream stream, int *priority), cuStreamGetPriority(ON(stream), priority))
BOTH(cudaStreamGetAttribute, _ptsz, (CUstream stream, unsigned attribute, void *value), cuStreamGetAttribute(ON(stream), attribute, value))
BOTH(cudaStreamSetAttribute, _ptsz, (CUstream stream, unsigned attribute, const void *value), cuStreamSetAttribute(ON(stream), attribute, value))
BOTH(cudaStreamCopyAttributes, _ptsz, (CUstream to, CUstream from), cuStreamCopyAttributes(ON(to), ON(from)))
BOTH(cudaStreamGetId, _ptsz, (CUstream stream, uint64_t *id), cuStreamGetId(ON(stream), id))
BOTH(cudaStreamGetDevice, _ptsz, (CUstream stream, int *device), get_device(ON(stream), device))
BOTH(cudaStreamAddCallback, _ptsz, (CUstream stream, void *function, void *data, unsigned flags),
     cuStreamAddCallback(ON(stream), function, data, flags))
BOTH(cudaLaunchHostFunc, _ptsz, (CUstream stream, void *function, void *data), cuLaunchHostFunc(ON(stream), function, data))

API(cudaEventCreate, (CUevent *event), cuEventCreate(event, 0))
API(cudaEventCreateWithFlags, (CUevent *event, unsigned flags), cuEventCreate(event, flags))
API(cudaEventDestroy, (CUevent event), cuEventDestroy_v2(event))
API(cudaEventQuery, (CUevent event), cuEventQuery(event))
API(cudaEventSynchronize, (CUevent event), cuEventSynchronize(event))
API(cudaEventElapsedTime, (float *milliseconds, CUevent start, CUevent end), cuEventElapsedTime(milliseconds, start, end))
API(cudaEventElapsedTime_v2, (float *milliseconds, CUevent start, CUevent end), cuEventElapsedTime(milliseconds, start, end))
BOTH(cudaEventRecord, _ptsz, (CUevent event, CUstream stream), cuEventRecordWithFlags(event, ON(stream), 0))
BOTH(cudaEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned flags), cuEventRecordWithFlags(event, ON(stream), flags))

// Stream capture. From CUDA 13 on the names without a version have the newest signature.
#include "graph.h"

BOTH(cudaStreamBeginCapture, _ptsz, (CUstream stream, int mode), cuStreamBeginCapture_v2(ON(stream), mode))
BOTH(cudaStreamBeginCaptureToGraph, _ptsz,
     (CUstream stream, CUgraph graph, const CUgraphNode *before, const void *data, size_t n, int mode),
     cuStreamBeginCaptureToGraph(ON(stream), graph, before, data, n, mode))
BOTH(cudaStreamEndCapture, _ptsz, (CUstream stream, CUgraph *graph), cuStreamEndCapture(ON(stream), graph))
BOTH(cudaStreamIsCapturing, _ptsz, (CUstream stream, int *status), cuStreamIsCapturing(ON(stream), status))
API(cudaThreadExchangeStreamCaptureMode, (int *mode), cuThreadExchangeStreamCaptureMode(mode))

#define INFO_V3(name)                                                                                                      \
	BOTH(name, _ptsz,                                                                                                  \
	     (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **before, const void **data, size_t *n), \
	     cuStreamGetCaptureInfo_v3(ON(stream), status, id, graph, before, data, n))
#define UPDATE_V2(name)                                                                          \
	BOTH(name, _ptsz, (CUstream stream, CUgraphNode *before, const void *data, size_t n, unsigned flags), \
	     cuStreamUpdateCaptureDependencies_v2(ON(stream), before, data, n, flags))

BOTH(cudaStreamGetCaptureInfo_v2, _ptsz,
     (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **before, size_t *n),
     cuStreamGetCaptureInfo_v2(ON(stream), status, id, graph, before, n))
INFO_V3(cudaStreamGetCaptureInfo_v3)
UPDATE_V2(cudaStreamUpdateCaptureDependencies_v2)

#if MAJOR == 13
INFO_V3(cudaStreamGetCaptureInfo)
UPDATE_V2(cudaStreamUpdateCaptureDependencies)
#else
BOTH(cudaStreamGetCaptureInfo, _ptsz, (CUstream stream, int *status, uint64_t *id), cuStreamGetCaptureInfo(ON(stream), status, id))
BOTH(cudaStreamUpdateCaptureDependencies, _ptsz, (CUstream stream, CUgraphNode *before, size_t n, unsigned flags),
     cuStreamUpdateCaptureDependencies(ON(stream), before, n, flags))
#endif

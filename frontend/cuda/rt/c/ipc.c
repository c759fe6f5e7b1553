// Memory and events of other processes. A handle comes by value and goes on so.
#include "cudart.h"

API(cudaIpcGetMemHandle, (struct ipc_handle *handle, void *p), cuIpcGetMemHandle(handle, (CUdeviceptr)p))
API(cudaIpcOpenMemHandle, (void **to, struct ipc_handle handle, unsigned flags), cuIpcOpenMemHandle_v2((CUdeviceptr *)to, handle, flags))
API(cudaIpcCloseMemHandle, (void *p), cuIpcCloseMemHandle((CUdeviceptr)p))
API(cudaIpcGetEventHandle, (struct ipc_handle *handle, CUevent event), cuIpcGetEventHandle(handle, event))
API(cudaIpcOpenEventHandle, (CUevent *event, struct ipc_handle handle), cuIpcOpenEventHandle(event, handle))

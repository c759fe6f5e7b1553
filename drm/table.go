package drm

import "reflect"

// Entry is the row of one ioctl that PVDRM's driver serves.
type Entry struct {
	Name    string // as in the C headers, without the DRM_IOCTL_ prefix
	Request Request
	handler
	Element reflect.Type // of the array of structs that the argument points to; nil without one
	Doc     string
}

// Table has one row for each ioctl of PVDRM's driver, the driver's own in the order of their
// numbers. Everything else follows from it: how an ioctl is served, how traces show one of which
// only the argument was recorded, the documentation, and the seeds of fuzzing.
var Table = []Entry{
	{Name: "VERSION", Request: IoctlVersion, handler: takes(serveVersion),
		Doc: "name, date and description (the device's name) of the driver"},
	{Name: "GEM_CLOSE", Request: IoctlGemClose, handler: plain(serveGemClose), Doc: "frees an object"},
	{Name: "GET_CAP", Request: IoctlGetCap, handler: plain(serveGetCap),
		Doc: "capabilities: PRIME, SYNCOBJ, monotonic time"},
	{Name: "PRIME_HANDLE_TO_FD", Request: IoctlPrimeHandleToFD, handler: plain(servePrimeExport),
		Doc: "a file descriptor for a system-memory object"},
	{Name: "PRIME_FD_TO_HANDLE", Request: IoctlPrimeFDToHandle, handler: plain(servePrimeImport),
		Doc: "an object for such a file descriptor"},
	{Name: "SYNCOBJ_CREATE", Request: IoctlSyncobjCreate, handler: plain(serveSyncobjCreate),
		Doc: "a sync object"},
	{Name: "SYNCOBJ_DESTROY", Request: IoctlSyncobjDestroy, handler: plain(serveSyncobjDestroy),
		Doc: "frees a sync object"},
	{Name: "SYNCOBJ_WAIT", Request: IoctlSyncobjWait, handler: takes(serveSyncobjWait),
		Doc: "waits for one or all of a list"},
	{Name: "SYNCOBJ_RESET", Request: IoctlSyncobjReset, handler: takes(serveReset),
		Doc: "back to unsignalled, without a fence"},
	{Name: "SYNCOBJ_SIGNAL", Request: IoctlSyncobjSignal, handler: takes(serveSignal),
		Doc: "signals by hand"},
	{Name: "PVDRM_GETPARAM", Request: IoctlGetParam, handler: plain(serveGetParam),
		Doc: "a property of the device"},
	{Name: "PVDRM_CHANNEL_ALLOC", Request: IoctlChannelAlloc, handler: plain(serveChannelAlloc),
		Doc: "a channel"},
	{Name: "PVDRM_CHANNEL_FREE", Request: IoctlChannelFree, handler: plain(serveChannelFree),
		Doc: "gives a channel back"},
	{Name: "PVDRM_GEM_NEW", Request: IoctlGemNew, handler: plain(serveGemNew),
		Doc: "an object in VRAM or in granted pages"},
	{Name: "PVDRM_GEM_INFO", Request: IoctlGemInfo, handler: plain(serveGemInfo),
		Doc: "size, domain and mmap offset of an object"},
	{Name: "PVDRM_GEM_CPU_PREP", Request: IoctlGemCPUPrep, handler: plain(serveCPUPrep),
		Doc: "waits until the GPU no longer uses an object"},
	{Name: "PVDRM_GEM_CPU_FINI", Request: IoctlGemCPUFini, handler: plain(serveCPUFini),
		Doc: "ends CPU access"},
	{Name: "PVDRM_VM_BIND", Request: IoctlVMBind, handler: takes(serveVMBind), Element: reflect.TypeFor[BindOp](),
		Doc: "maps and unmaps objects in the GPU address space"},
	{Name: "PVDRM_EXEC", Request: IoctlExec, handler: takes(serveExec),
		Doc: "queues commands on a channel"},
	{Name: "PVDRM_WAIT", Request: IoctlWait, handler: plain(serveWait),
		Doc: "waits for a point of a channel"},
	{Name: "PVDRM_MODULE_LOAD", Request: IoctlModuleLoad, handler: takes(serveModuleLoad),
		Doc: "loads PTX"},
	{Name: "PVDRM_MODULE_UNLOAD", Request: IoctlModuleUnload, handler: plain(serveModuleUnload),
		Doc: "frees a module"},
	{Name: "PVDRM_MODULE_FUNCTION", Request: IoctlModuleFunction, handler: takes(serveModuleFunction), Element: reflect.TypeFor[FunctionParam](),
		Doc: "finds a kernel and its attributes"},
	{Name: "PVDRM_MODULE_GLOBAL", Request: IoctlModuleGlobal, handler: takes(serveModuleGlobal),
		Doc: "finds a variable"},
	{Name: "PVDRM_STATUS", Request: IoctlStatus, handler: takes(serveStatus),
		Doc: "why the GPU context was lost"},
	{Name: "PVDRM_READ_OUTPUT", Request: IoctlReadOutput, handler: takes(serveReadOutput),
		Doc: "takes what kernels printed"},
}

var byNumber = func() (t [256]*Entry) {
	for i := range Table {
		t[Table[i].Request.Number()] = &Table[i]
	}
	return t
}()

// Lookup finds the row of a request by its type and number. As in Linux the
// size may differ (older and newer callers): the argument is cut or zero-extended.
func Lookup(r Request) (*Entry, bool) {
	if !r.IsDRM() {
		return nil, false
	}
	e := byNumber[r.Number()]
	return e, e != nil
}

package drm

// Handling says who serves an ioctl.
type Handling int

// How the frontend serves an ioctl.
const (
	Local     Handling = iota + 1 // answered in the frontend
	Forwarded                     // becomes entries of the ring
)

// Entry describes one ioctl that PVDRM's driver serves.
type Entry struct {
	Name     string // as in the C headers, without the DRM_IOCTL_ prefix
	Request  Request
	Handling Handling
	Doc      string
}

// Table lists every ioctl of PVDRM's driver, by number. Forwarding, the
// documentation and the fuzz seeds are made from it.
var Table = []Entry{
	{"VERSION", IoctlVersion, Local, "name, date and description (the device's name) of the driver"},
	{"GEM_CLOSE", IoctlGemClose, Forwarded, "frees an object"},
	{"GET_CAP", IoctlGetCap, Local, "capabilities: PRIME, SYNCOBJ, monotonic time"},
	{"PRIME_HANDLE_TO_FD", IoctlPrimeHandleToFD, Local, "a file descriptor for a system-memory object"},
	{"PRIME_FD_TO_HANDLE", IoctlPrimeFDToHandle, Forwarded, "an object for such a file descriptor"},
	{"SYNCOBJ_CREATE", IoctlSyncobjCreate, Local, "a sync object"},
	{"SYNCOBJ_DESTROY", IoctlSyncobjDestroy, Local, "frees a sync object"},
	{"SYNCOBJ_WAIT", IoctlSyncobjWait, Local, "waits for one or all of a list"},
	{"SYNCOBJ_RESET", IoctlSyncobjReset, Local, "back to unsignalled, without a fence"},
	{"SYNCOBJ_SIGNAL", IoctlSyncobjSignal, Local, "signals by hand"},
	{"PVDRM_GETPARAM", IoctlGetParam, Local, "a property of the device"},
	{"PVDRM_CHANNEL_ALLOC", IoctlChannelAlloc, Forwarded, "a channel"},
	{"PVDRM_CHANNEL_FREE", IoctlChannelFree, Forwarded, "gives a channel back"},
	{"PVDRM_GEM_NEW", IoctlGemNew, Forwarded, "an object in VRAM or in granted pages"},
	{"PVDRM_GEM_INFO", IoctlGemInfo, Local, "size, domain and mmap offset of an object"},
	{"PVDRM_GEM_CPU_PREP", IoctlGemCPUPrep, Local, "waits until the GPU no longer uses an object"},
	{"PVDRM_GEM_CPU_FINI", IoctlGemCPUFini, Local, "ends CPU access"},
	{"PVDRM_VM_BIND", IoctlVMBind, Forwarded, "maps and unmaps objects in the GPU address space"},
	{"PVDRM_EXEC", IoctlExec, Forwarded, "queues commands on a channel"},
	{"PVDRM_WAIT", IoctlWait, Local, "waits for a point of a channel"},
	{"PVDRM_MODULE_LOAD", IoctlModuleLoad, Forwarded, "loads PTX"},
	{"PVDRM_MODULE_UNLOAD", IoctlModuleUnload, Forwarded, "frees a module"},
	{"PVDRM_MODULE_FUNCTION", IoctlModuleFunction, Forwarded, "finds a kernel and its attributes"},
	{"PVDRM_MODULE_GLOBAL", IoctlModuleGlobal, Forwarded, "finds a variable"},
	{"PVDRM_STATUS", IoctlStatus, Forwarded, "why the GPU context was lost"},
	{"PVDRM_READ_OUTPUT", IoctlReadOutput, Forwarded, "takes what kernels printed"},
}

var byNumber = func() (t [256]*Entry) {
	for i := range Table {
		t[Table[i].Request.Number()] = &Table[i]
	}
	return t
}()

// Lookup finds the entry of a request by its type and number. As in Linux the
// size may differ (older and newer callers): the argument is cut or zero-extended.
func Lookup(r Request) (Entry, bool) {
	if !r.IsDRM() {
		return Entry{}, false
	}
	e := byNumber[r.Number()]
	if e == nil {
		return Entry{}, false
	}
	return *e, true
}

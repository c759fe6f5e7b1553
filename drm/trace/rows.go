package trace

import (
	"strings"

	"pvdrm/drm"
)

// rows has one row for each operation. Recorder has the calls that make events; everything else
// that is done with events follows from the rows.
var rows = named([lastOp + 1]Info{
	OpOpen:  {Name: "OPEN"},
	OpClose: {Name: "CLOSE", call: (*replayed).close},
	OpVersion: {Request: drm.IoctlVersion, call: (*replayed).version, privateOut: true,
		Out:      []Field{field("major", KindNumber), field("minor", KindNumber), field("patch", KindNumber)},
		OutBytes: []string{"name", "description"}},
	OpGetParam: {Request: drm.IoctlGetParam, call: (*replayed).getParam,
		In: []Field{field("param", KindNumber)}, Out: []Field{varying("value", KindNumber)}},
	OpGemNew: {Request: drm.IoctlGemNew, call: (*replayed).gemNew,
		In:  []Field{field("size", KindBytes), field("domain", KindNumber), field("flags", KindFlags)},
		Out: []Field{field("handle", KindHandle)}},
	OpMmap: {Name: "MMAP", call: (*replayed).gemMap,
		In: []Field{field("handle", KindHandle)}, Out: []Field{varying("size", KindBytes)}},
	OpGemInfo: {Request: drm.IoctlGemInfo, call: (*replayed).gemSize,
		In: []Field{field("handle", KindHandle)}, Out: []Field{varying("size", KindBytes)}},
	OpGemClose: {Request: drm.IoctlGemClose, call: (*replayed).gemClose, In: []Field{field("handle", KindHandle)}},
	OpVMBind: {Request: drm.IoctlVMBind, call: (*replayed).vmBind,
		In: []Field{field("async", KindFlags)}, InBytes: []string{"operations"}},
	OpChannelAlloc: {Request: drm.IoctlChannelAlloc, call: (*replayed).channelAlloc,
		Out: []Field{field("channel", KindChannel)}},
	OpChannelFree: {Request: drm.IoctlChannelFree, call: (*replayed).channelFree,
		In: []Field{field("channel", KindChannel)}},
	OpExec: {Request: drm.IoctlExec, call: (*replayed).exec,
		In: []Field{field("channel", KindChannel)}, InBytes: []string{"commands", "waits"},
		Out: []Field{field("seqno", KindSeqno)}},
	OpWait: {Request: drm.IoctlWait, call: (*replayed).wait, polls: true,
		In: []Field{field("channel", KindChannel), field("seqno", KindSeqno), field("timeout", KindTime)}},
	OpModuleLoad: {Request: drm.IoctlModuleLoad, call: (*replayed).moduleLoad, privateOut: true,
		InBytes: []string{"name", "source"}, Out: []Field{field("module", KindModule)}, OutBytes: []string{"log"}},
	OpModuleUnload: {Request: drm.IoctlModuleUnload, call: (*replayed).moduleUnload,
		In: []Field{field("module", KindModule)}},
	OpModuleFunction: {Request: drm.IoctlModuleFunction, call: (*replayed).moduleFunction,
		In: []Field{field("module", KindModule)}, InBytes: []string{"name"},
		Out: []Field{field("function", KindFunction), field("param_bytes", KindBytes), field("shared_bytes", KindBytes),
			varying("local_bytes", KindBytes), field("const_bytes", KindBytes), varying("regs", KindNumber),
			varying("max_threads", KindNumber)},
		OutBytes: []string{"params"}},
	OpModuleGlobal: {Request: drm.IoctlModuleGlobal, call: (*replayed).moduleGlobal,
		In: []Field{field("module", KindModule)}, InBytes: []string{"name"},
		Out: []Field{field("addr", KindAddress), field("size", KindBytes)}},
	OpStatus: {Request: drm.IoctlStatus, call: (*replayed).status, privateOut: true,
		Out: []Field{field("cause", KindNumber)}, OutBytes: []string{"text"}},
	OpWritten: {Name: "WRITTEN",
		In: []Field{field("handle", KindHandle), field("offset", KindBytes)}, InBytes: []string{"content"}},
	OpSeen: {Name: "SEEN",
		In: []Field{field("handle", KindHandle), field("offset", KindBytes)}, OutBytes: []string{"hashes"}},
	OpIoctl: {Name: "IOCTL", privateIn: true, privateOut: true,
		In: []Field{field("request", KindFlags)}, InBytes: []string{"argument"}, OutBytes: []string{"argument"}},
	OpCPUPrep: {Request: drm.IoctlGemCPUPrep, call: (*replayed).cpuPrep, driver: true, polls: true,
		In: []Field{field("handle", KindHandle), field("timeout", KindTime)}},

	OpSyncobjCreate: {Request: drm.IoctlSyncobjCreate, call: (*replayed).syncobjCreate, driver: true,
		In: []Field{field("signaled", KindNumber)}, Out: []Field{field("syncobj", KindSyncobj)}},
	OpSyncobjDestroy: {Request: drm.IoctlSyncobjDestroy, call: (*replayed).syncobjDestroy, driver: true,
		In: []Field{field("syncobj", KindSyncobj)}},
	OpSyncobjReset: {Request: drm.IoctlSyncobjReset, call: (*replayed).syncobjReset, driver: true,
		InBytes: []string{"syncobjs"}},
	OpSyncobjSignal: {Request: drm.IoctlSyncobjSignal, call: (*replayed).syncobjSignal, driver: true,
		InBytes: []string{"syncobjs"}},
	OpSyncobjWait: {Request: drm.IoctlSyncobjWait, call: (*replayed).syncobjWait, driver: true, polls: true,
		In: []Field{field("flags", KindFlags), field("timeout", KindTime)}, InBytes: []string{"syncobjs"},
		Out: []Field{varying("first", KindNumber)}},
	OpExecSync: {Request: drm.IoctlExec, call: (*replayed).execSync, driver: true,
		In: []Field{field("channel", KindChannel)}, InBytes: []string{"commands", "after", "signals"},
		Out: []Field{field("seqno", KindSeqno)}},

	OpPrimeExport: {Request: drm.IoctlPrimeHandleToFD, call: (*replayed).primeExport, driver: true,
		In: []Field{field("handle", KindHandle)}, Out: []Field{field("buffer", KindBuffer)}},
	OpPrimeImport: {Request: drm.IoctlPrimeFDToHandle, call: (*replayed).primeImport, driver: true,
		In: []Field{field("buffer", KindBuffer)}, Out: []Field{field("handle", KindHandle)}},
})

// named names the rows of ioctls.
func named(rows [lastOp + 1]Info) [lastOp + 1]Info {
	for i := range rows {
		if rows[i].Request != 0 {
			rows[i].Name = strings.TrimPrefix(rows[i].Request.String(), "PVDRM_")
		}
	}
	return rows
}

package trace

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// call makes the call of an event.
func (f *replayed) call(e *Event) (out []uint64, outBytes [][]byte, err error) {
	in := func(i int) uint64 { return e.In[i] }
	text := func(i int) string { return string(e.InBytes[i]) }
	switch e.Op {
	case OpClose:
		err = f.inner.Close()
	case OpVersion:
		var v drm.Info
		v, err = f.inner.Version()
		out = numbers(uint64(v.Major), uint64(v.Minor), uint64(v.Patch))
	case OpGetParam:
		out = numbers(0)
		out[0], err = f.inner.GetParam(drm.Param(in(0)))
	case OpGemNew:
		var h uint32
		h, err = f.inner.GemNew(in(0), drm.Domain(in(1)), drm.GemFlags(in(2)))
		out = numbers(uint64(h))
	case OpMmap:
		var mem []byte
		if mem, err = f.inner.GemMap(f.id(KindHandle, in(0))); err == nil {
			f.objects[uint32(in(0))] = mem
		}
		out = numbers(uint64(len(mem)))
	case OpGemInfo:
		out = numbers(0)
		out[0], err = f.inner.GemSize(f.id(KindHandle, in(0)))
	case OpGemClose:
		delete(f.objects, uint32(in(0)))
		f.space.drop(uint32(in(0)))
		err = f.inner.GemClose(f.id(KindHandle, in(0)))
	case OpVMBind:
		err = f.vmBind(e)
	case OpChannelAlloc:
		var c uint32
		c, err = f.inner.ChannelAlloc()
		out = numbers(uint64(c))
	case OpChannelFree:
		err = f.inner.ChannelFree(f.id(KindChannel, in(0)))
	case OpExec:
		out = numbers(0)
		out[0], err = f.exec(e)
	case OpWait:
		err = f.inner.Wait(f.point(in(0), in(1)), e.timeout(in(2)))
	case OpModuleLoad:
		var m uint32
		m, err = f.inner.ModuleLoad(text(0), e.InBytes[1])
		out = numbers(uint64(m))
	case OpModuleUnload:
		err = f.inner.ModuleUnload(f.id(KindModule, in(0)))
	case OpModuleFunction:
		var fn uint32
		var a drm.FunctionAttributes
		fn, a, err = f.inner.ModuleFunction(f.id(KindModule, in(0)), text(0))
		out = numbers(uint64(fn), uint64(a.ParamBytes), uint64(a.SharedBytes), uint64(a.LocalBytes), uint64(a.ConstBytes), uint64(a.Regs), uint64(a.MaxThreads))
		params, _ := binary.Append(nil, binary.LittleEndian, a.Params) // of fixed size
		outBytes = [][]byte{params}
	case OpModuleGlobal:
		out = numbers(0, 0)
		out[0], out[1], err = f.inner.ModuleGlobal(f.id(KindModule, in(0)), text(0))
	case OpCPUPrep, OpSyncobjCreate, OpSyncobjDestroy, OpSyncobjReset, OpSyncobjSignal, OpSyncobjWait, OpExecSync, OpPrimeExport, OpPrimeImport:
		out, err = f.driverCall(e)
	case OpStatus:
		var cause uint32
		cause, _, err = f.inner.LostStatus()
		out = numbers(uint64(cause))
	}
	return out, outBytes, err
}

// timeout is how long a wait may take now.
func (e *Event) timeout(was uint64) time.Duration {
	if e.Errno == 0 {
		return patience
	}
	return time.Duration(was)
}

// driverCall makes a call that only a drm.Driver takes.
func (f *replayed) driverCall(e *Event) (out []uint64, err error) {
	d := f.driver
	if d == nil {
		return nil, fmt.Errorf("the device is no drm.Driver: %w", syscall.EOPNOTSUPP)
	}
	in := func(i int) uint64 { return e.In[i] }
	var made uint32
	switch e.Op {
	case OpCPUPrep:
		return nil, d.CPUPrep(f.id(KindHandle, in(0)), e.timeout(in(1)))
	case OpSyncobjCreate:
		made, err = d.SyncobjCreate(in(0) != 0)
	case OpSyncobjDestroy:
		return nil, d.SyncobjDestroy(f.id(KindSyncobj, in(0)))
	case OpSyncobjReset:
		return nil, d.SyncobjReset(f.syncobjs(e.InBytes[0]))
	case OpSyncobjSignal:
		return nil, d.SyncobjSignal(f.syncobjs(e.InBytes[0]))
	case OpSyncobjWait:
		return f.syncobjWait(e)
	case OpExecSync:
		out = numbers(0)
		out[0], err = d.ExecSync(f.id(KindChannel, in(0)), f.commands(e), f.syncobjs(e.InBytes[1]), f.syncobjs(e.InBytes[2]))
		return out, err
	case OpPrimeExport:
		return nil, f.primeExport(e)
	case OpPrimeImport:
		made, err = f.primeImport(e)
	}
	return numbers(uint64(made)), err
}

// syncobjs are the sync objects of a list.
func (f *replayed) syncobjs(b []byte) []uint32 {
	list := handles(b)
	for i, h := range list {
		list[i] = f.id(KindSyncobj, uint64(h))
	}
	return list
}

func (f *replayed) syncobjWait(e *Event) ([]uint64, error) {
	list := f.syncobjs(e.InBytes[0])
	all, forSubmit := e.In[0]&drm.SyncobjWaitAll != 0, e.In[0]&drm.SyncobjWaitForSubmit != 0
	first, err := f.driver.SyncobjWait(list, all, forSubmit, e.timeout(e.In[1]))
	// Another may be the first now. What is compared next is the work of the one that was.
	if was := e.Out[0]; err == nil && e.Errno == 0 && !all && was < uint64(len(list)) {
		_, err = f.driver.SyncobjWait(list[was:was+1], true, forSubmit, patience)
	}
	return numbers(uint64(first)), err
}

func (f *replayed) primeExport(e *Event) error {
	fd, err := f.driver.PrimeExport(f.id(KindHandle, e.In[0]))
	if err != nil {
		return err
	}
	buffer := e.Out[0]
	if was, again := f.buffers[buffer]; again {
		_ = unix.Close(was) // it has nothing to flush
	} else if len(f.buffers) >= maxBuffers {
		_ = unix.Close(fd)
		return fmt.Errorf("more than %d shared buffers: %w", maxBuffers, syscall.EMFILE)
	}
	f.buffers[buffer] = fd
	return nil
}

func (f *replayed) primeImport(e *Event) (uint32, error) {
	if fd, ok := f.buffers[e.In[0]]; ok {
		return f.driver.PrimeImport(fd)
	}
	if e.Errno == 0 {
		return 0, fmt.Errorf("the trace does not have where buffer %d comes from: %w", e.In[0], syscall.ENOENT)
	}
	if e.Errno == syscall.EBADF {
		return f.driver.PrimeImport(-1)
	}
	fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0) // what is no buffer either
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	return f.driver.PrimeImport(fd)
}

func (f *replayed) vmBind(e *Event) error {
	ops, err := bindOps(e.InBytes[0])
	if err != nil {
		return err
	}
	now := append([]drm.BindOp(nil), ops...)
	for i := range now {
		now[i].Handle = f.id(KindHandle, uint64(now[i].Handle))
		now[i].Addr = f.inWindow(now[i].Addr)
	}
	err = f.inner.VMBind(now, e.In[0]&drm.VMBindAsync != 0)
	if err == nil {
		f.space.bind(ops)
	}
	return err
}

// bindOps decodes the operations of a VM_BIND.
func bindOps(b []byte) ([]drm.BindOp, error) {
	ops := make([]drm.BindOp, len(b)/drm.BindOpSize)
	if _, err := binary.Decode(b, binary.LittleEndian, ops); err != nil || len(b)%drm.BindOpSize != 0 {
		return nil, fmt.Errorf("%d bytes of operations: %w", len(b), syscall.EINVAL)
	}
	return ops, nil
}

// points decodes the waits of an EXEC.
func points(b []byte) (list []drm.Point) {
	for ; len(b) >= waitBytes; b = b[waitBytes:] {
		list = append(list, drm.Point{Channel: binary.LittleEndian.Uint32(b), Seqno: binary.LittleEndian.Uint64(b[4:])})
	}
	return list
}

func (f *replayed) exec(e *Event) (uint64, error) {
	waits := points(e.InBytes[1])
	for i, w := range waits {
		waits[i] = f.point(uint64(w.Channel), w.Seqno)
	}
	return f.inner.Exec(f.id(KindChannel, e.In[0]), f.commands(e), waits)
}

// commands is the command stream of an EXEC.
func (f *replayed) commands(e *Event) []byte {
	t := translation{f: f}
	if _, err := drm.WalkCommands(e.InBytes[0], &t); err != nil {
		return e.InBytes[0] // what was malformed stays so
	}
	return t.stream
}

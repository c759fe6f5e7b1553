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

// result is how a call ended.
type result struct {
	out      []uint64
	outBytes [][]byte
	err      error
}

// done is the result of a call that returns nothing.
func done(err error) result { return result{err: err} }

// value is the result of a call that returns a number.
func value(v uint64, err error) result { return result{out: numbers(v), err: err} }

// id is the result of a call that makes something.
func id(made uint32, err error) result { return value(uint64(made), err) }

// call makes the call of an event.
func (f *replayed) call(e *Event) result {
	row := &rows[e.Op]
	if row.driver && f.driver == nil {
		return done(fmt.Errorf("the device is no drm.Driver: %w", syscall.EOPNOTSUPP))
	}
	return row.call(f, e)
}

func (f *replayed) close(*Event) result { return done(f.inner.Close()) }

func (f *replayed) version(*Event) result {
	v, err := f.inner.Version()
	return result{out: numbers(uint64(v.Major), uint64(v.Minor), uint64(v.Patch)), err: err}
}

func (f *replayed) getParam(e *Event) result { return value(f.inner.GetParam(drm.Param(e.In[0]))) }

func (f *replayed) gemNew(e *Event) result {
	return id(f.inner.GemNew(e.In[0], drm.Domain(e.In[1]), drm.GemFlags(e.In[2])))
}

func (f *replayed) gemMap(e *Event) result {
	mem, err := f.inner.GemMap(f.id(KindHandle, e.In[0]))
	if err == nil {
		f.objects[uint32(e.In[0])] = mem
	}
	return value(uint64(len(mem)), err)
}

func (f *replayed) gemSize(e *Event) result { return value(f.inner.GemSize(f.id(KindHandle, e.In[0]))) }

func (f *replayed) gemClose(e *Event) result {
	delete(f.objects, uint32(e.In[0]))
	f.space.drop(uint32(e.In[0]))
	return done(f.inner.GemClose(f.id(KindHandle, e.In[0])))
}

func (f *replayed) channelAlloc(*Event) result { return id(f.inner.ChannelAlloc()) }

func (f *replayed) channelFree(e *Event) result {
	return done(f.inner.ChannelFree(f.id(KindChannel, e.In[0])))
}

func (f *replayed) wait(e *Event) result {
	return done(f.inner.Wait(f.point(e.In[0], e.In[1]), e.timeout(e.In[2])))
}

func (f *replayed) moduleLoad(e *Event) result {
	return id(f.inner.ModuleLoad(string(e.InBytes[0]), e.InBytes[1]))
}

func (f *replayed) moduleUnload(e *Event) result {
	return done(f.inner.ModuleUnload(f.id(KindModule, e.In[0])))
}

func (f *replayed) moduleFunction(e *Event) result {
	fn, a, err := f.inner.ModuleFunction(f.id(KindModule, e.In[0]), string(e.InBytes[0]))
	params, _ := binary.Append(nil, binary.LittleEndian, a.Params) // of fixed size
	return result{out: attributes(fn, &a), outBytes: [][]byte{params}, err: err}
}

// attributes are the numbers that MODULE_FUNCTION returns.
func attributes(fn uint32, a *drm.FunctionAttributes) []uint64 {
	return numbers(uint64(fn), uint64(a.ParamBytes), uint64(a.SharedBytes), uint64(a.LocalBytes), uint64(a.ConstBytes), uint64(a.Regs), uint64(a.MaxThreads))
}

func (f *replayed) moduleGlobal(e *Event) result {
	addr, size, err := f.inner.ModuleGlobal(f.id(KindModule, e.In[0]), string(e.InBytes[0]))
	return result{out: numbers(addr, size), err: err}
}

func (f *replayed) status(*Event) result {
	cause, _, err := f.inner.LostStatus()
	return value(uint64(cause), err)
}

// timeout is how long a wait may take now.
func (e *Event) timeout(was uint64) time.Duration {
	if e.Errno == 0 {
		return patience
	}
	return time.Duration(was)
}

func (f *replayed) cpuPrep(e *Event) result {
	return done(f.driver.CPUPrep(f.id(KindHandle, e.In[0]), e.timeout(e.In[1])))
}

func (f *replayed) syncobjCreate(e *Event) result { return id(f.driver.SyncobjCreate(e.In[0] != 0)) }

func (f *replayed) syncobjDestroy(e *Event) result {
	return done(f.driver.SyncobjDestroy(f.id(KindSyncobj, e.In[0])))
}

func (f *replayed) syncobjReset(e *Event) result {
	return done(f.driver.SyncobjReset(f.syncobjs(e.InBytes[0])))
}

func (f *replayed) syncobjSignal(e *Event) result {
	return done(f.driver.SyncobjSignal(f.syncobjs(e.InBytes[0])))
}

func (f *replayed) execSync(e *Event) result {
	return value(f.driver.ExecSync(f.id(KindChannel, e.In[0]), f.commands(e), f.syncobjs(e.InBytes[1]), f.syncobjs(e.InBytes[2])))
}

// syncobjs are the sync objects of a list.
func (f *replayed) syncobjs(b []byte) []uint32 {
	list := handles(b)
	for i, h := range list {
		list[i] = f.id(KindSyncobj, uint64(h))
	}
	return list
}

func (f *replayed) syncobjWait(e *Event) result {
	list := f.syncobjs(e.InBytes[0])
	all, forSubmit := e.In[0]&drm.SyncobjWaitAll != 0, e.In[0]&drm.SyncobjWaitForSubmit != 0
	first, err := f.driver.SyncobjWait(list, all, forSubmit, e.timeout(e.In[1]))
	// Another may be the first now. What is compared next is the work of the one that was.
	if was := e.Out[0]; err == nil && e.Errno == 0 && !all && was < uint64(len(list)) {
		_, err = f.driver.SyncobjWait(list[was:was+1], true, forSubmit, patience)
	}
	return value(uint64(first), err)
}

func (f *replayed) primeExport(e *Event) result {
	fd, err := f.driver.PrimeExport(f.id(KindHandle, e.In[0]))
	if err != nil {
		return done(err)
	}
	buffer := e.Out[0]
	if was, again := f.buffers[buffer]; again {
		_ = unix.Close(was) // it has nothing to flush
	} else if len(f.buffers) >= maxBuffers {
		_ = unix.Close(fd)
		return done(fmt.Errorf("more than %d shared buffers: %w", maxBuffers, syscall.EMFILE))
	}
	f.buffers[buffer] = fd
	return done(nil)
}

func (f *replayed) primeImport(e *Event) result {
	if fd, ok := f.buffers[e.In[0]]; ok {
		return id(f.driver.PrimeImport(fd))
	}
	if e.Errno == 0 {
		return done(fmt.Errorf("the trace does not have where buffer %d comes from: %w", e.In[0], syscall.ENOENT))
	}
	if e.Errno == syscall.EBADF {
		return id(f.driver.PrimeImport(-1))
	}
	fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0) // what is no buffer either
	if err != nil {
		return done(err)
	}
	defer func() { _ = unix.Close(fd) }()
	return id(f.driver.PrimeImport(fd))
}

func (f *replayed) vmBind(e *Event) result {
	ops, err := bindOps(e.InBytes[0])
	if err != nil {
		return done(err)
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
	return done(err)
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

func (f *replayed) exec(e *Event) result {
	waits := points(e.InBytes[1])
	for i, w := range waits {
		waits[i] = f.point(uint64(w.Channel), w.Seqno)
	}
	return value(f.inner.Exec(f.id(KindChannel, e.In[0]), f.commands(e), waits))
}

// commands is the command stream of an EXEC.
func (f *replayed) commands(e *Event) []byte {
	t := translation{f: f}
	if _, err := drm.WalkCommands(e.InBytes[0], &t); err != nil {
		return e.InBytes[0] // what was malformed stays so
	}
	return t.stream
}

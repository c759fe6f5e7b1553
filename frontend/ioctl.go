package frontend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/hypercall"
)

// Ioctl serves one ioctl on f; see the function.
func (f *File) Ioctl(req drm.Request, arg []byte, mem drm.UserMemory) error {
	return Ioctl(f, req, arg, mem)
}

// Ioctl serves one ioctl as a DRM driver gets it: arg is a copy of the
// argument struct, and is changed to what goes back to the program; mem is the
// program's memory, for the pointers in it. Unknown requests are ENOTTY.
//
// As in Linux an argument that is shorter or longer than the struct (of an
// older or newer program) is extended with zeroes or cut.
func Ioctl(f drm.Driver, req drm.Request, arg []byte, mem drm.UserMemory) error {
	e, ok := drm.Lookup(req)
	if !ok {
		return fmt.Errorf("%s: %w", req, syscall.ENOTTY)
	}
	if len(arg) > drm.MaxArgument {
		return fmt.Errorf("%s: argument of %d bytes: %w", req, len(arg), syscall.EINVAL)
	}
	whole := arg
	if size := e.Request.Size(); len(arg) < size || !aligned(arg) {
		whole = make([]byte, max(len(arg), size))
		copy(whole, arg)
	}
	err := byNumber[e.Request.Number()](f, whole[:e.Request.Size()], mem)
	copy(arg, whole) // after a failure too, as Linux does: the log of MODULE_LOAD comes with one
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	return nil
}

// ioctlFunc serves one ioctl with an argument of exactly its size, aligned.
type ioctlFunc func(f drm.Driver, arg []byte, mem drm.UserMemory) error

// typed makes an ioctlFunc of a function that takes the argument struct.
func typed[T any](serve func(f drm.Driver, a *T, mem drm.UserMemory) error) ioctlFunc {
	return func(f drm.Driver, arg []byte, mem drm.UserMemory) error { return serve(f, argument[T](arg), mem) }
}

// ioctls has one entry for each of drm.Table; a test keeps them in step.
var ioctls = map[drm.Request]ioctlFunc{
	drm.IoctlVersion:         typed(ioctlVersion),
	drm.IoctlGetCap:          typed(ioctlGetCap),
	drm.IoctlPrimeHandleToFD: typed(ioctlPrimeExport),
	drm.IoctlPrimeFDToHandle: typed(ioctlPrimeImport),
	drm.IoctlSyncobjWait:     typed(ioctlSyncobjWait),
	drm.IoctlGemNew:          typed(ioctlGemNew),
	drm.IoctlGemInfo:         typed(ioctlGemInfo),
	drm.IoctlGemCPUPrep:      typed(ioctlCPUPrep),
	drm.IoctlVMBind:          typed(ioctlVMBind),
	drm.IoctlExec:            typed(ioctlExec),
	drm.IoctlModuleLoad:      typed(ioctlModuleLoad),
	drm.IoctlModuleFunction:  typed(ioctlModuleFunction),
	drm.IoctlModuleGlobal:    typed(ioctlModuleGlobal),
	drm.IoctlStatus:          typed(ioctlStatus),
	drm.IoctlReadOutput:      typed(ioctlReadOutput),

	drm.IoctlGemClose: typed(func(f drm.Driver, a *drm.GemClose, _ drm.UserMemory) error { return f.GemClose(a.Handle) }),
	drm.IoctlGemCPUFini: typed(func(f drm.Driver, a *drm.GemCPUFini, _ drm.UserMemory) error {
		_, err := f.GemInfo(a.Handle)
		return err
	}),
	drm.IoctlSyncobjCreate: typed(func(f drm.Driver, a *drm.SyncobjCreate, _ drm.UserMemory) (err error) {
		if a.Flags&^drm.SyncobjCreateSignaled != 0 {
			return syscall.EINVAL
		}
		a.Handle, err = f.SyncobjCreate(a.Flags&drm.SyncobjCreateSignaled != 0)
		return err
	}),
	drm.IoctlSyncobjDestroy: typed(func(f drm.Driver, a *drm.SyncobjDestroy, _ drm.UserMemory) error {
		return f.SyncobjDestroy(a.Handle)
	}),
	drm.IoctlSyncobjReset: typed(func(f drm.Driver, a *drm.SyncobjArray, mem drm.UserMemory) error {
		return onHandles(a, mem, f.SyncobjReset)
	}),
	drm.IoctlSyncobjSignal: typed(func(f drm.Driver, a *drm.SyncobjArray, mem drm.UserMemory) error {
		return onHandles(a, mem, f.SyncobjSignal)
	}),
	drm.IoctlGetParam: typed(func(f drm.Driver, a *drm.GetParam, _ drm.UserMemory) (err error) {
		a.Value, err = f.GetParam(drm.Param(a.Param))
		return err
	}),
	drm.IoctlChannelAlloc: typed(func(f drm.Driver, a *drm.Channel, _ drm.UserMemory) (err error) {
		a.Channel, err = f.ChannelAlloc()
		return err
	}),
	drm.IoctlChannelFree: typed(func(f drm.Driver, a *drm.Channel, _ drm.UserMemory) error { return f.ChannelFree(a.Channel) }),
	drm.IoctlWait: typed(func(f drm.Driver, a *drm.Wait, _ drm.UserMemory) error {
		return f.Wait(drm.Point{Channel: a.Channel, Seqno: a.Seqno}, time.Duration(a.TimeoutNS))
	}),
	drm.IoctlModuleUnload: typed(func(f drm.Driver, a *drm.ModuleUnload, _ drm.UserMemory) error {
		return f.ModuleUnload(a.Module)
	}),
}

// byNumber are the same by the number of the request, which is faster to find.
var byNumber = func() (t [256]ioctlFunc) {
	for req, serve := range ioctls {
		t[req.Number()] = serve
	}
	return t
}()

// readArray copies an array of n elements of type T out of the program's memory.
func readArray[T any](mem drm.UserMemory, addr uint64, n, most uint32) ([]T, error) {
	if n > most {
		return nil, fmt.Errorf("%d elements, at most %d: %w", n, most, syscall.E2BIG)
	}
	out := make([]T, n)
	if n == 0 {
		return out, nil
	}
	b := make([]byte, binary.Size(out))
	if err := mem.Read(addr, b); err != nil {
		return nil, err
	}
	_, err := binary.Decode(b, binary.LittleEndian, out)
	return out, err
}

// writeText writes s to the program's memory as far as room goes.
func writeText(mem drm.UserMemory, addr, room uint64, s string) error {
	n := min(room, uint64(len(s)))
	if addr == 0 || n == 0 {
		return nil
	}
	return mem.Write(addr, []byte(s[:n]))
}

func onHandles(a *drm.SyncobjArray, mem drm.UserMemory, do func([]uint32) error) error {
	handles, err := readArray[uint32](mem, a.Handles, a.Count, maxSyncobjs)
	if err != nil {
		return err
	}
	return do(handles)
}

func ioctlVersion(f drm.Driver, a *drm.Version, mem drm.UserMemory) error {
	v, err := f.Version()
	if err != nil {
		return err
	}
	a.Major, a.Minor, a.Patch = int32(v.Major), int32(v.Minor), int32(v.Patch)
	err = errors.Join(writeText(mem, a.Name, a.NameLen, v.Name),
		writeText(mem, a.Date, a.DateLen, drm.DriverDate), writeText(mem, a.Desc, a.DescLen, v.Desc))
	a.NameLen, a.DateLen, a.DescLen = uint64(len(v.Name)), uint64(len(drm.DriverDate)), uint64(len(v.Desc))
	return err
}

func ioctlGetCap(f drm.Driver, a *drm.GetCap, _ drm.UserMemory) error {
	switch a.Capability {
	case drm.CapPrime:
		a.Value = drm.PrimeCapImport | drm.PrimeCapExport
	case drm.CapTimestampMono, drm.CapSyncobj:
		a.Value = 1
	case drm.CapDumbBuffer, drm.CapSyncobjTimeline:
		a.Value = 0
	default:
		return fmt.Errorf("capability 0x%x: %w", a.Capability, syscall.EINVAL)
	}
	return nil
}

func ioctlPrimeExport(f drm.Driver, a *drm.PrimeHandle, _ drm.UserMemory) error {
	fd, err := f.PrimeExport(a.Handle)
	a.FD = int32(fd)
	return err
}

func ioctlPrimeImport(f drm.Driver, a *drm.PrimeHandle, _ drm.UserMemory) (err error) {
	a.Handle, err = f.PrimeImport(int(a.FD))
	return err
}

func ioctlSyncobjWait(f drm.Driver, a *drm.SyncobjWait, mem drm.UserMemory) error {
	handles, err := readArray[uint32](mem, a.Handles, a.Count, maxSyncobjs)
	if err != nil {
		return err
	}
	if a.Flags&^(drm.SyncobjWaitAll|drm.SyncobjWaitForSubmit) != 0 {
		return fmt.Errorf("flags 0x%x: %w", a.Flags, syscall.EINVAL)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	left := max(time.Duration(a.TimeoutNS)-time.Duration(now.Nano()), 0)
	first, err := f.SyncobjWait(handles, a.Flags&drm.SyncobjWaitAll != 0, a.Flags&drm.SyncobjWaitForSubmit != 0, left)
	a.FirstSignaled = uint32(first)
	return err
}

func ioctlGemNew(f drm.Driver, a *drm.GemNew, _ drm.UserMemory) (err error) {
	if a.Handle, err = f.GemNew(a.Size, a.Domain, a.Flags); err != nil {
		return err
	}
	info, err := f.GemInfo(a.Handle)
	a.Size, a.Domain, a.MapOffset = info.Size, info.Domain, info.MapOffset
	return err
}

func ioctlGemInfo(f drm.Driver, a *drm.GemInfo, _ drm.UserMemory) error {
	_, err := f.GemSize(a.Handle)
	if err == nil {
		*a, err = f.GemInfo(a.Handle)
	}
	return err
}

func ioctlCPUPrep(f drm.Driver, a *drm.GemCPUPrep, _ drm.UserMemory) error {
	if a.Flags&^drm.CPUPrepNoWait != 0 {
		return fmt.Errorf("flags 0x%x: %w", a.Flags, syscall.EINVAL)
	}
	timeout := time.Duration(a.TimeoutNS)
	if a.Flags&drm.CPUPrepNoWait != 0 {
		timeout = 0
	}
	err := f.CPUPrep(a.Handle, timeout)
	if timeout == 0 && errors.Is(err, syscall.ETIME) {
		return fmt.Errorf("object %d: %w", a.Handle, syscall.EBUSY)
	}
	return err
}

func ioctlVMBind(f drm.Driver, a *drm.VMBind, mem drm.UserMemory) error {
	if a.Flags&^drm.VMBindAsync != 0 {
		return fmt.Errorf("flags 0x%x: %w", a.Flags, syscall.EINVAL)
	}
	const most = 1 << 16
	ops, err := readArray[drm.BindOp](mem, a.Ops, a.Count, most)
	if err != nil {
		return err
	}
	return f.VMBind(ops, a.Flags&drm.VMBindAsync != 0)
}

func ioctlExec(f drm.Driver, a *drm.Exec, mem drm.UserMemory) error {
	if a.Flags != 0 {
		return fmt.Errorf("flags 0x%x: %w", a.Flags, syscall.EINVAL)
	}
	waits, err := readArray[uint32](mem, a.Waits, a.WaitCount, drm.MaxWaits)
	if err != nil {
		return err
	}
	signals, err := readArray[uint32](mem, a.Signals, a.SignalCount, drm.MaxWaits)
	if err != nil {
		return err
	}
	stream, err := readArray[byte](mem, a.Commands, a.CmdBytes, drm.MaxExecBytes)
	if err != nil {
		return err
	}
	if len(waits)+len(signals) == 0 {
		a.Seqno, err = f.Exec(a.Channel, stream, nil)
	} else {
		a.Seqno, err = f.ExecSync(a.Channel, stream, waits, signals)
	}
	return err
}

func ioctlModuleLoad(f drm.Driver, a *drm.ModuleLoad, mem drm.UserMemory) error {
	if a.SourceBytes > hypercall.MaxSource {
		return fmt.Errorf("module source of %d bytes: %w", a.SourceBytes, syscall.EFBIG)
	}
	source, err := readArray[byte](mem, a.Source, uint32(a.SourceBytes), hypercall.MaxSource)
	if err != nil {
		return err
	}
	name := "module"
	if a.Name != 0 {
		if name, err = readName(mem, a.Name); err != nil {
			return err
		}
	}
	a.Module, err = f.ModuleLoad(name, source)
	var refused *drm.ModuleError
	if errors.As(err, &refused) {
		err = errors.Join(err, writeText(mem, a.Log, uint64(a.LogBytes), refused.Log))
		a.LogBytes = uint32(len(refused.Log))
	} else {
		a.LogBytes = 0
	}
	return err
}

// readName reads a zero-terminated name of at most drm.ModuleNameBytes. It
// reads byte by byte, so as not to touch what lies behind the end.
func readName(mem drm.UserMemory, addr uint64) (string, error) {
	var name []byte
	for i := range uint64(drm.ModuleNameBytes) {
		var b [1]byte
		if err := mem.Read(addr+i, b[:]); err != nil {
			return "", err
		}
		if b[0] == 0 {
			break
		}
		name = append(name, b[0])
	}
	return string(name), nil
}

func ioctlModuleFunction(f drm.Driver, a *drm.ModuleFunction, mem drm.UserMemory) error {
	name, err := readArray[byte](mem, a.Name, a.NameBytes, hypercall.MaxName)
	if err != nil {
		return err
	}
	id, attr, err := f.ModuleFunction(a.Module, string(name))
	if err != nil {
		return err
	}
	if n := min(int(a.ParamCount), len(attr.Params)); a.Params != 0 && n > 0 {
		b, err := binary.Append(nil, binary.LittleEndian, attr.Params[:n])
		if err == nil {
			err = mem.Write(a.Params, b)
		}
		if err != nil {
			return err
		}
	}
	a.Function, a.ParamCount, a.ParamBytes = id, uint32(len(attr.Params)), attr.ParamBytes
	a.SharedBytes, a.LocalBytes, a.ConstBytes = attr.SharedBytes, attr.LocalBytes, attr.ConstBytes
	a.Regs, a.MaxThreads = attr.Regs, attr.MaxThreads
	return nil
}

func ioctlModuleGlobal(f drm.Driver, a *drm.ModuleGlobal, mem drm.UserMemory) error {
	name, err := readArray[byte](mem, a.Name, a.NameBytes, hypercall.MaxName)
	if err != nil {
		return err
	}
	a.Addr, a.Size, err = f.ModuleGlobal(a.Module, string(name))
	return err
}

func ioctlStatus(f drm.Driver, a *drm.Status, mem drm.UserMemory) error {
	cause, text, err := f.LostStatus()
	if err != nil {
		return err
	}
	err = writeText(mem, a.Text, uint64(a.TextBytes), text)
	a.Cause, a.TextBytes = cause, uint32(len(text))
	return err
}

func ioctlReadOutput(f drm.Driver, a *drm.ReadOutput, mem drm.UserMemory) error {
	text, err := f.ReadOutput()
	if err != nil {
		return err
	}
	err = writeText(mem, a.Text, uint64(a.TextBytes), string(text))
	a.TextBytes = uint32(len(text))
	return err
}

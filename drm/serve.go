package drm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ioctl serves one ioctl as a DRM driver gets it: arg is a copy of the
// argument struct, and is changed to what goes back to the program; mem is the
// program's memory, for the pointers in it. Unknown requests are ENOTTY.
//
// As in Linux an argument that is shorter or longer than the struct (of an
// older or newer program) is extended with zeroes or cut.
func Ioctl(f Driver, req Request, arg []byte, mem UserMemory) error {
	e, ok := Lookup(req)
	if !ok {
		return fmt.Errorf("%s: %w", req, syscall.ENOTTY)
	}
	if len(arg) > MaxArgument {
		return fmt.Errorf("%s: argument of %d bytes: %w", req, len(arg), syscall.EINVAL)
	}
	whole, size := arg, e.Request.Size()
	if len(arg) < size || !aligned(arg) {
		whole = make([]byte, max(len(arg), size))
		copy(whole, arg)
	}
	err := e.serve(f, whole[:size], mem)
	copy(arg, whole) // after a failure too, as Linux does: the log of MODULE_LOAD comes with one
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	return nil
}

// handler is the part of a row that knows the type of the argument.
type handler struct {
	// Argument is the struct that the ioctl takes.
	Argument reflect.Type
	// serve takes an argument of exactly its size, aligned.
	serve func(f Driver, arg []byte, mem UserMemory) error
}

// takes is a handler for an argument that may have pointers.
func takes[T any](serve func(f Driver, a *T, mem UserMemory) error) handler {
	return handler{
		Argument: reflect.TypeFor[T](),
		serve:    func(f Driver, arg []byte, mem UserMemory) error { return serve(f, argument[T](arg), mem) },
	}
}

// plain is a handler for an argument without pointers.
func plain[T any](serve func(f Driver, a *T) error) handler {
	return handler{
		Argument: reflect.TypeFor[T](),
		serve:    func(f Driver, arg []byte, _ UserMemory) error { return serve(f, argument[T](arg)) },
	}
}

// readArray copies an array of n elements of type T out of the program's memory.
func readArray[T any](mem UserMemory, addr uint64, n, most uint32) ([]T, error) {
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
func writeText(mem UserMemory, addr, room uint64, s string) error {
	n := min(room, uint64(len(s)))
	if addr == 0 || n == 0 {
		return nil
	}
	return mem.Write(addr, []byte(s[:n]))
}

// The functions below serve one ioctl each: they check flags, copy what pointers name, and call
// the method.

// onHandles calls do with the sync objects that an argument lists.
func onHandles(a *SyncobjArray, mem UserMemory, do func([]uint32) error) error {
	handles, err := readArray[uint32](mem, a.Handles, a.Count, MaxSyncobjs)
	if err != nil {
		return err
	}
	return do(handles)
}

func serveVersion(f Driver, a *Version, mem UserMemory) error {
	v, err := f.Version()
	if err != nil {
		return err
	}
	a.Major, a.Minor, a.Patch = int32(v.Major), int32(v.Minor), int32(v.Patch)
	err = errors.Join(writeText(mem, a.Name, a.NameLen, v.Name),
		writeText(mem, a.Date, a.DateLen, DriverDate), writeText(mem, a.Desc, a.DescLen, v.Desc))
	a.NameLen, a.DateLen, a.DescLen = uint64(len(v.Name)), uint64(len(DriverDate)), uint64(len(v.Desc))
	return err
}

func serveGetCap(f Driver, a *GetCap) error {
	switch a.Capability {
	case CapPrime:
		a.Value = PrimeCapImport | PrimeCapExport
	case CapTimestampMono, CapSyncobj:
		a.Value = 1
	case CapDumbBuffer, CapSyncobjTimeline:
		a.Value = 0
	default:
		return fmt.Errorf("capability 0x%x: %w", a.Capability, syscall.EINVAL)
	}
	return nil
}

func servePrimeExport(f Driver, a *PrimeHandle) error {
	fd, err := f.PrimeExport(a.Handle)
	a.FD = int32(fd)
	return err
}

func servePrimeImport(f Driver, a *PrimeHandle) (err error) {
	a.Handle, err = f.PrimeImport(int(a.FD))
	return err
}

func serveSyncobjWait(f Driver, a *SyncobjWait, mem UserMemory) error {
	handles, err := readArray[uint32](mem, a.Handles, a.Count, MaxSyncobjs)
	if err != nil {
		return err
	}
	if a.Flags&^(SyncobjWaitAll|SyncobjWaitForSubmit) != 0 {
		return fmt.Errorf("flags 0x%x: %w", a.Flags, syscall.EINVAL)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	left := max(time.Duration(a.TimeoutNS)-time.Duration(now.Nano()), 0)
	first, err := f.SyncobjWait(handles, a.Flags&SyncobjWaitAll != 0, a.Flags&SyncobjWaitForSubmit != 0, left)
	a.FirstSignaled = uint32(first)
	return err
}

func serveGemNew(f Driver, a *GemNew) (err error) {
	if a.Handle, err = f.GemNew(a.Size, a.Domain, a.Flags); err != nil {
		return err
	}
	info, err := f.GemInfo(a.Handle)
	a.Size, a.Domain, a.MapOffset = info.Size, info.Domain, info.MapOffset
	return err
}

func serveGemInfo(f Driver, a *GemInfo) error {
	_, err := f.GemSize(a.Handle)
	if err == nil {
		*a, err = f.GemInfo(a.Handle)
	}
	return err
}

func serveCPUPrep(f Driver, a *GemCPUPrep) error {
	if a.Flags&^CPUPrepNoWait != 0 {
		return fmt.Errorf("flags 0x%x: %w", a.Flags, syscall.EINVAL)
	}
	timeout := time.Duration(a.TimeoutNS)
	if a.Flags&CPUPrepNoWait != 0 {
		timeout = 0
	}
	err := f.CPUPrep(a.Handle, timeout)
	if timeout == 0 && errors.Is(err, syscall.ETIME) {
		return fmt.Errorf("object %d: %w", a.Handle, syscall.EBUSY)
	}
	return err
}

func serveVMBind(f Driver, a *VMBind, mem UserMemory) error {
	if a.Flags&^VMBindAsync != 0 {
		return fmt.Errorf("flags 0x%x: %w", a.Flags, syscall.EINVAL)
	}
	const most = 1 << 16
	ops, err := readArray[BindOp](mem, a.Ops, a.Count, most)
	if err != nil {
		return err
	}
	return f.VMBind(ops, a.Flags&VMBindAsync != 0)
}

func serveExec(f Driver, a *Exec, mem UserMemory) error {
	if a.Flags != 0 {
		return fmt.Errorf("flags 0x%x: %w", a.Flags, syscall.EINVAL)
	}
	waits, err := readArray[uint32](mem, a.Waits, a.WaitCount, MaxWaits)
	if err != nil {
		return err
	}
	signals, err := readArray[uint32](mem, a.Signals, a.SignalCount, MaxWaits)
	if err != nil {
		return err
	}
	stream, err := readArray[byte](mem, a.Commands, a.CmdBytes, MaxExecBytes)
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

func serveModuleLoad(f Driver, a *ModuleLoad, mem UserMemory) error {
	most, head := uint64(MaxSource), [4]byte{}
	if a.SourceBytes >= uint64(len(head)) {
		if err := mem.Read(a.Source, head[:]); err != nil {
			return err
		}
		most = MostSource(head[:])
	}
	if a.SourceBytes > most {
		return fmt.Errorf("module source of %d bytes: %w", a.SourceBytes, syscall.EFBIG)
	}
	source, err := readArray[byte](mem, a.Source, uint32(a.SourceBytes), uint32(most))
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
	var refused *ModuleError
	if errors.As(err, &refused) {
		err = errors.Join(err, writeText(mem, a.Log, uint64(a.LogBytes), refused.Log))
		a.LogBytes = uint32(len(refused.Log))
	} else {
		a.LogBytes = 0
	}
	return err
}

func serveReset(f Driver, a *SyncobjArray, mem UserMemory) error {
	return onHandles(a, mem, f.SyncobjReset)
}

func serveSignal(f Driver, a *SyncobjArray, mem UserMemory) error {
	return onHandles(a, mem, f.SyncobjSignal)
}

func serveGemClose(f Driver, a *GemClose) error { return f.GemClose(a.Handle) }

func serveCPUFini(f Driver, a *GemCPUFini) error {
	_, err := f.GemInfo(a.Handle)
	return err
}

func serveSyncobjCreate(f Driver, a *SyncobjCreate) (err error) {
	if a.Flags&^SyncobjCreateSignaled != 0 {
		return syscall.EINVAL
	}
	a.Handle, err = f.SyncobjCreate(a.Flags&SyncobjCreateSignaled != 0)
	return err
}

func serveSyncobjDestroy(f Driver, a *SyncobjDestroy) error { return f.SyncobjDestroy(a.Handle) }

func serveGetParam(f Driver, a *GetParam) (err error) {
	a.Value, err = f.GetParam(Param(a.Param))
	return err
}

func serveChannelAlloc(f Driver, a *Channel) (err error) {
	a.Channel, err = f.ChannelAlloc()
	return err
}

func serveChannelFree(f Driver, a *Channel) error { return f.ChannelFree(a.Channel) }

func serveWait(f Driver, a *Wait) error {
	return f.Wait(Point{Channel: a.Channel, Seqno: a.Seqno}, time.Duration(a.TimeoutNS))
}

func serveModuleUnload(f Driver, a *ModuleUnload) error { return f.ModuleUnload(a.Module) }

// readName reads a zero-terminated name of at most ModuleNameBytes. It
// reads byte by byte, so as not to touch what lies behind the end.
func readName(mem UserMemory, addr uint64) (string, error) {
	var name []byte
	for i := range uint64(ModuleNameBytes) {
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

func serveModuleFunction(f Driver, a *ModuleFunction, mem UserMemory) error {
	name, err := readArray[byte](mem, a.Name, a.NameBytes, MaxName)
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
	a.PTX, a.Binary, a.NeedsSize = attr.PTXVersion, attr.Binary, attr.NeedsSize
	a.ClusterX, a.ClusterY, a.ClusterZ = attr.ClusterX, attr.ClusterY, attr.ClusterZ
	return nil
}

func serveModuleGlobal(f Driver, a *ModuleGlobal, mem UserMemory) error {
	name, err := readArray[byte](mem, a.Name, a.NameBytes, MaxName)
	if err != nil {
		return err
	}
	a.Addr, a.Size, err = f.ModuleGlobal(a.Module, string(name))
	return err
}

func serveStatus(f Driver, a *Status, mem UserMemory) error {
	cause, text, err := f.LostStatus()
	if err != nil {
		return err
	}
	err = writeText(mem, a.Text, uint64(a.TextBytes), text)
	a.Cause, a.TextBytes = cause, uint32(len(text))
	return err
}

func serveReadOutput(f Driver, a *ReadOutput, mem UserMemory) error {
	text, err := f.ReadOutput()
	if err != nil {
		return err
	}
	err = writeText(mem, a.Text, uint64(a.TextBytes), string(text))
	a.TextBytes = uint32(len(text))
	return err
}

// Package translate turns the terms of gpu.Device into those of the DRM user
// API: errors into errnos, properties into the values of GETPARAM, and command
// streams into the commands of a channel. It has no state and no goroutines.
package translate

import (
	"errors"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gpu"
)

// Errno is the error of the user API that stands for err: an errno that err
// wraps, else the one for the device's error, and EREMOTEIO for all others.
func Errno(err error) syscall.Errno {
	var no syscall.Errno
	var lost *gpu.LostError
	var build *gpu.BuildError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &no):
		return no
	case errors.As(err, &lost):
		return syscall.EIO
	case errors.As(err, &build):
		return syscall.ENOEXEC
	case errors.Is(err, gpu.ErrInvalid):
		return syscall.EINVAL
	case errors.Is(err, gpu.ErrExists):
		return syscall.EEXIST
	case errors.Is(err, gpu.ErrNotFound):
		return syscall.ENOENT
	case errors.Is(err, gpu.ErrNoMemory):
		return syscall.ENOMEM
	case errors.Is(err, gpu.ErrTooLarge):
		return syscall.EFBIG
	case errors.Is(err, gpu.ErrGridTooLarge):
		return syscall.ERANGE
	case errors.Is(err, gpu.ErrCluster):
		return syscall.EDOM
	case errors.Is(err, gpu.ErrBusy):
		return syscall.EBUSY
	case errors.Is(err, gpu.ErrCanceled):
		return syscall.ECANCELED
	case errors.Is(err, gpu.ErrClosed):
		return syscall.ENODEV
	}
	return syscall.EREMOTEIO
}

// Params lists the values of GETPARAM in the order of drm.Param, with 0 for
// ParamVRAMUsed, which changes.
func Params(p gpu.Properties) []uint64 {
	n := func(v int) uint64 { return uint64(max(v, 0)) }
	return []uint64{
		n(p.ComputeMajor), n(p.ComputeMinor), n(p.Multiprocs), n(p.WarpSize), n(p.MaxThreads),
		n(p.MaxBlockDim[0]), n(p.MaxBlockDim[1]), n(p.MaxBlockDim[2]),
		n(p.MaxGridDim[0]), n(p.MaxGridDim[1]), n(p.MaxGridDim[2]),
		n(p.SharedPerBlock), n(p.RegsPerBlock), n(p.MaxThreadsSM), n(p.ConstBytes),
		n(p.ClockKHz), n(p.MemClockKHz), n(p.MemBusBits), n(p.L2Bytes), p.VRAMBytes,
		min(n(p.MaxChannels), drm.MaxChannels), n(p.MaxParamBytes),
		p.VRAM.Base, p.VRAM.Size, p.VRAM.Page, p.System.Base, p.System.Size, p.System.Page,
		0, n(p.MaxBlocksSM), n(p.Number), truth(p.Textures), truth(p.Cooperative), truth(p.Words), shares(&p), n(p.MaxCluster), truth(p.Images), p.Libraries, p.Peers,
	}
}

// shares is the value of drm.ParamShares.
func shares(p *gpu.Properties) uint64 {
	switch {
	case p.Shares:
		return drm.SharesAll
	case p.SharesMapped:
		return drm.SharesMapped
	}
	return 0
}

// truth is 1 for true.
func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Attributes returns what MODULE_FUNCTION reports of a kernel.
func Attributes(a gpu.FunctionAttributes) drm.FunctionAttributes {
	attr := drm.FunctionAttributes{
		ParamBytes: uint32(a.ParamBytes), SharedBytes: uint32(a.SharedBytes), LocalBytes: uint32(a.LocalBytes),
		ConstBytes: uint32(a.ConstBytes), Regs: uint32(a.Regs), MaxThreads: uint32(a.MaxThreads),
		PTXVersion: uint32(a.PTXVersion), Binary: uint32(a.Binary), ClusterX: a.Cluster[0], ClusterY: a.Cluster[1], ClusterZ: a.Cluster[2],
	}
	if a.NeedsCluster {
		attr.NeedsSize = 1
	}
	for _, p := range a.Params {
		attr.Params = append(attr.Params, drm.FunctionParam{Offset: uint32(p.Offset), Size: uint32(p.Size)})
	}
	return attr
}

// Commands decodes a command stream. Function finds kernels by the id of
// MODULE_FUNCTION. What is returned does not alias the stream. On an error the
// index names the command it belongs to.
func Commands(stream []byte, function func(id uint32) (gpu.Function, error)) (cmds []gpu.Command, index int, err error) {
	return new(Room).Commands(stream, function)
}

// Room is memory for the commands of a stream. Most streams are one launch with few
// parameters, and take no other. The zero Room is ready.
type Room struct {
	sink   sink
	one    [1]gpu.Command
	launch gpu.Launch
	params [64]byte
}

// Commands is the function Commands. What it returns is valid until the next call.
func (r *Room) Commands(stream []byte, function func(id uint32) (gpu.Function, error)) (cmds []gpu.Command, index int, err error) {
	r.sink = sink{function, r, r.one[:0]}
	index, err = drm.WalkCommands(stream, &r.sink)
	return r.sink.out, index, err
}

// sink implements drm.CommandSink.
type sink struct {
	function func(id uint32) (gpu.Function, error)
	room     *Room
	out      []gpu.Command
}

func (s *sink) Copy(c drm.CopyCmd) error {
	s.out = append(s.out, &gpu.Copy{Dst: c.Dst, Src: c.Src, Width: c.Width, Height: c.Height,
		DstPitch: c.DstPitch, SrcPitch: c.SrcPitch})
	return nil
}

func (s *sink) Fill(c drm.FillCmd) error {
	s.out = append(s.out, &gpu.Fill{Dst: c.Dst, Pattern: c.Pattern, Size: c.Size,
		Width: c.Width, Height: c.Height, Pitch: c.Pitch})
	return nil
}

func (s *sink) Launch(c drm.LaunchCmd) error {
	f, err := s.function(c.Function)
	if err != nil {
		return err
	}
	l, room := new(gpu.Launch), []byte{}
	if len(s.out) == 0 {
		l, room = &s.room.launch, s.room.params[:0]
	}
	*l = gpu.Launch{Func: f, Grid: c.Grid, Block: c.Block, SharedBytes: c.SharedBytes, Params: append(room, c.Params...), Cluster: c.Cluster,
		Cooperative: c.Cooperative, Signal: c.Signal}
	s.out = append(s.out, l)
	return nil
}

func (s *sink) Task() error {
	s.out = append(s.out, &gpu.Task{})
	return nil
}

func (s *sink) Word(c drm.WordCmd) error {
	s.out = append(s.out, &gpu.Word{VA: c.Addr, Value: c.Value, Size: c.Size, Op: gpu.WordOp(c.Op)})
	return nil
}

func (s *sink) Call(c drm.CallCmd) error {
	s.out = append(s.out, &gpu.Call{Function: c.Function, Args: append([]byte{}, c.Args...), ArgsVA: c.ArgsAddr, ArgsBytes: c.ArgsBytes, Results: c.Results, Bytes: c.ResultBytes})
	return nil
}

func (s *sink) Timestamp(c drm.TimestampCmd) error {
	s.out = append(s.out, &gpu.Timestamp{VA: c.Addr})
	return nil
}

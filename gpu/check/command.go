package check

import (
	"fmt"

	"pvdrm/gpu"
)

// Copy checks a copy, which may be nil. It does not look at what is mapped.
func Copy(cmd *gpu.Copy) error {
	if cmd == nil {
		return fmt.Errorf("%w: nil copy", gpu.ErrInvalid)
	}
	if err := rows("source", cmd.Src, cmd.Width, cmd.Height, cmd.SrcPitch); err != nil {
		return err
	}
	return rows("destination", cmd.Dst, cmd.Width, cmd.Height, cmd.DstPitch)
}

// Fill checks a fill, which may be nil. It does not look at what is mapped.
func Fill(cmd *gpu.Fill) error {
	if cmd == nil {
		return fmt.Errorf("%w: nil fill", gpu.ErrInvalid)
	}
	size := uint64(cmd.Size)
	if size != 1 && size != 2 && size != 4 {
		return fmt.Errorf("%w: a pattern of %d bytes; it has 1, 2 or 4", gpu.ErrInvalid, size)
	}
	if cmd.Dst%size != 0 || cmd.Width%size != 0 || cmd.Height > 1 && cmd.Pitch%size != 0 {
		return fmt.Errorf("%w: address 0x%x, width %d and pitch %d must be multiples of the pattern's %d bytes",
			gpu.ErrInvalid, cmd.Dst, cmd.Width, cmd.Pitch, size)
	}
	return rows("fill", cmd.Dst, cmd.Width, cmd.Height, cmd.Pitch)
}

// Timestamp checks a timestamp, which may be nil. It does not look at what is mapped.
func Timestamp(cmd *gpu.Timestamp) error {
	if cmd == nil {
		return fmt.Errorf("%w: nil timestamp", gpu.ErrInvalid)
	}
	if cmd.VA%8 != 0 {
		return fmt.Errorf("%w: timestamp at 0x%x, which is not a multiple of 8", gpu.ErrInvalid, cmd.VA)
	}
	return nil
}

// Call checks a call, which may be nil. It does not look at what is mapped.
func Call(p *gpu.Properties, cmd *gpu.Call) error {
	const least, most = 16, 64 << 20 // bytes: the head of a batch with a record, drm.MaxCall
	switch {
	case cmd == nil:
		return fmt.Errorf("%w: nil call", gpu.ErrInvalid)
	case p.Libraries == 0:
		return fmt.Errorf("%w: the device has none of NVIDIA's libraries to call (function %d); they need --device cuda and --cuda-libs", gpu.ErrInvalid, cmd.Function)
	case cmd.ArgsVA == 0 && len(cmd.Args) > p.MaxParamBytes:
		return fmt.Errorf("%w: a call with %d bytes of arguments", gpu.ErrInvalid, len(cmd.Args))
	case cmd.ArgsVA == 0 && len(cmd.Args) < least, cmd.ArgsVA != 0 && cmd.ArgsBytes < least, cmd.ArgsBytes > most, cmd.Bytes > most:
		return fmt.Errorf("%w: a call with %d bytes of arguments and %d of results", gpu.ErrInvalid, max(len(cmd.Args), int(cmd.ArgsBytes)), cmd.Bytes)
	case cmd.Results%8 != 0 || (cmd.Results == 0) != (cmd.Bytes == 0):
		return fmt.Errorf("%w: %d bytes of results at 0x%x", gpu.ErrInvalid, cmd.Bytes, cmd.Results)
	}
	return nil
}

// Word checks an operation on a word, which may be nil. It does not look at what is mapped.
func Word(p *gpu.Properties, cmd *gpu.Word) error {
	switch {
	case cmd == nil:
		return fmt.Errorf("%w: nil word", gpu.ErrInvalid)
	case !p.Words:
		return fmt.Errorf("%w: the device's channels do not wait for words", gpu.ErrInvalid)
	case cmd.Size != 4 && cmd.Size != 8 || cmd.Op > gpu.WaitNor:
		return fmt.Errorf("%w: operation %d on a word of %d bytes", gpu.ErrInvalid, cmd.Op, cmd.Size)
	case cmd.VA%uint64(cmd.Size) != 0:
		return fmt.Errorf("%w: a word of %d bytes at 0x%x", gpu.ErrInvalid, cmd.Size, cmd.VA)
	}
	return nil
}

// rows checks that rows of a transfer lie within 64 bits of address and do not
// overlap.
func rows(side string, va, width, height, pitch uint64) error {
	if height == 0 {
		return fmt.Errorf("%w: a transfer of no rows", gpu.ErrInvalid)
	}
	last := va // address of the last row
	if height > 1 {
		if pitch < width {
			return fmt.Errorf("%w: %s pitch %d is less than the width %d", gpu.ErrInvalid, side, pitch, width)
		}
		if pitch != 0 && height-1 > (^uint64(0)-va)/pitch {
			return fmt.Errorf("%w: %s of %d rows at 0x%x wraps around", gpu.ErrInvalid, side, height, va)
		}
		last += (height - 1) * pitch
	}
	if width > ^uint64(0)-last {
		return fmt.Errorf("%w: %s of %d bytes at 0x%x wraps around", gpu.ErrInvalid, side, width, last)
	}
	return nil
}

// Launch checks a launch against the device and the kernel, whose attributes the
// caller has found: the launch is not nil and its function belongs to the context.
func Launch(p *gpu.Properties, a *gpu.FunctionAttributes, l *gpu.Launch) error {
	threads := uint64(1)
	for i := range 3 {
		if l.Grid[i] == 0 || uint64(l.Grid[i]) > uint64(p.MaxGridDim[i]) {
			return BadLaunch(a, "grid %v; the device allows 1 to %v", l.Grid, p.MaxGridDim)
		}
		if l.Block[i] == 0 || uint64(l.Block[i]) > uint64(p.MaxBlockDim[i]) {
			return BadLaunch(a, "block %v; the device allows 1 to %v", l.Block, p.MaxBlockDim)
		}
		threads *= uint64(l.Block[i])
	}
	if err := cluster(p, a, l); err != nil {
		return err
	}
	if l.Cooperative && !p.Cooperative {
		return BadLaunch(a, "it is cooperative, which the device does not support")
	}
	if l.Signal != 0 && (l.Signal%4 != 0 || !p.System.Contains(l.Signal, 4)) {
		return BadLaunch(a, "a signal at 0x%x, which is no aligned word of granted memory", l.Signal)
	}
	if allowed := min(p.MaxThreads, a.MaxThreads); threads > uint64(allowed) {
		return BadLaunch(a, "%d threads in a block; the kernel allows %d", threads, allowed)
	}
	if shared := uint64(a.SharedBytes) + uint64(l.SharedBytes); shared > uint64(p.SharedPerBlock) {
		return BadLaunch(a, "%d bytes of .shared; the device has %d", shared, p.SharedPerBlock)
	}
	if len(l.Params) != a.ParamBytes {
		return BadLaunch(a, "%d bytes of parameters; the kernel takes %d", len(l.Params), a.ParamBytes)
	}
	if len(l.Params) > p.MaxParamBytes {
		return BadLaunch(a, "%d bytes of parameters; the device allows %d", len(l.Params), p.MaxParamBytes)
	}
	return nil
}

// BadLaunch makes the error of a launch that a device refuses.
func BadLaunch(a *gpu.FunctionAttributes, format string, args ...any) error {
	return fmt.Errorf("%w: launch of %s: %s", gpu.ErrInvalid, a.Name, fmt.Sprintf(format, args...))
}

// cluster checks the clusters of a launch against its grid and the device.
func cluster(p *gpu.Properties, a *gpu.FunctionAttributes, l *gpu.Launch) error {
	if l.Cluster == [3]uint32{} {
		return nil
	}
	size := uint64(1)
	for i, n := range l.Cluster {
		if n == 0 || l.Grid[i]%n != 0 {
			return BadLaunch(a, "clusters of %v blocks in a grid of %v", l.Cluster, l.Grid)
		}
		if size *= uint64(n); size > uint64(p.MaxCluster) {
			return BadLaunch(a, "clusters of %v blocks; the device allows %d", l.Cluster, p.MaxCluster)
		}
	}
	return nil
}

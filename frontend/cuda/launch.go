package cuda

import (
	"encoding/binary"
	"fmt"
	"math"

	"pvdrm/drm"
)

// LaunchConfig says how a kernel runs.
type LaunchConfig struct {
	Grid   [3]uint32 // blocks
	Block  [3]uint32 // threads of a block
	Shared uint32    // dynamic shared memory of a block, bytes
	Stream *Stream   // nil: the default stream

	Cluster     [3]uint32 // blocks of a cluster; zero: as the kernel says
	Cooperative bool      // the blocks may wait for each other

	// Signal is the address of a 32-bit word in pinned memory. Where it is not 0 the kernel gives the GPU
	// away on its own: while it runs the device stores 1 there when others want the GPU, or half of the
	// limit of launches is over. The kernel then saves what it needs and ends, and the program launches
	// it again. The device never clears the word, and leaves it alone once the launch has ended.
	Signal DevicePtr
}

// Launch is cuLaunchKernel: it queues the kernel and returns. There must be one
// argument for each parameter, of the parameter's size: a DevicePtr, an integer
// of 8 to 64 bits, a float32 or float64, or a []byte for a struct. An int suits
// integers of 4 and of 8 bytes, if its value fits. What is wrong with the
// arguments is ErrInvalidValue, and nothing runs.
func (f *Function) Launch(cfg LaunchConfig, args ...any) error {
	const call = "cuLaunchKernel"
	params, err := packParams(f.attr, args)
	if err != nil {
		return f.launch(cfg, nil, errorf(call, ErrInvalidValue, "kernel %s: %w", f.name, err))
	}
	return f.launch(cfg, params, nil)
}

// LaunchPacked is cuLaunchKernel with CU_LAUNCH_PARAM_BUFFER_POINTER: params
// holds the arguments laid out as the kernel expects them. It may be longer than
// the parameters, but not end before them (ErrInvalidValue).
func (f *Function) LaunchPacked(cfg LaunchConfig, params []byte) error {
	end := uint32(0)
	for _, p := range f.attr.Params {
		end = max(end, p.Offset+p.Size)
	}
	if uint64(len(params)) < uint64(end) {
		return f.launch(cfg, nil, errorf("cuLaunchKernel", ErrInvalidValue, "kernel %s: %d bytes of arguments for %d bytes of parameters", f.name, len(params), end))
	}
	block := make([]byte, f.attr.ParamBytes)
	copy(block, params)
	return f.launch(cfg, block, nil)
}

// launch queues the kernel, unless what prepared it failed: that is told only
// when nothing else is wrong.
func (f *Function) launch(cfg LaunchConfig, params []byte, prepared error) error {
	const call = "cuLaunchKernel"
	c := f.m.c
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	s, err := c.pick(call, cfg.Stream)
	if err != nil {
		return err
	}
	if err := f.checkConfig(call, cfg); err != nil {
		return err
	}
	if prepared != nil {
		return prepared
	}
	if err := f.m.loaded(call); err != nil {
		return err
	}
	p, err := submit(c, call, s, drm.LaunchCmd{Function: f.id, Grid: cfg.Grid, Block: cfg.Block,
		SharedBytes: cfg.Shared, Params: params, Cluster: cfg.Cluster, Cooperative: cfg.Cooperative, Signal: uint64(cfg.Signal)})
	if err == nil && f.prints {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mayPrint(p)
	}
	return err
}

// checkConfig compares a launch with what the device and the kernel can do.
func (f *Function) checkConfig(call string, cfg LaunchConfig) error {
	dev := f.m.c.dev
	if cfg.Cooperative && dev.params[drm.ParamCooperative] == 0 {
		return errorf(call, ErrNotSupported, "kernel %s: the device has no cooperative launches", f.name)
	}
	if cfg.Cluster != [3]uint32{} && dev.params[drm.ParamMaxCluster] == 0 {
		return errorf(call, ErrNotSupported, "kernel %s: the device has no clusters; they need compute capability 9.0 (--sm 9.0) and the software GPU", f.name)
	}
	threads := uint64(1)
	for i := range 3 {
		grid, block := dev.params[drm.ParamMaxGridX+drm.Param(i)], dev.params[drm.ParamMaxBlockX+drm.Param(i)]
		if g := uint64(cfg.Grid[i]); g == 0 || g > grid {
			return errorf(call, ErrInvalidValue, "kernel %s: grid %v: %c must be 1 to %d", f.name, cfg.Grid, 'x'+rune(i), grid)
		}
		if b := uint64(cfg.Block[i]); b == 0 || b > block {
			return errorf(call, ErrInvalidValue, "kernel %s: block %v: %c must be 1 to %d", f.name, cfg.Block, 'x'+rune(i), block)
		}
		if threads *= uint64(cfg.Block[i]); threads > dev.params[drm.ParamMaxThreads] {
			return errorf(call, ErrInvalidValue, "kernel %s: block %v: more than %d threads", f.name, cfg.Block, dev.params[drm.ParamMaxThreads])
		}
	}
	if most := uint64(f.attr.MaxThreads); most > 0 && threads > most {
		if m := dev.Multiprocessor(); m.warps(int(f.attr.Regs)) < (int(threads)+m.Warp-1)/m.Warp {
			return errorf(call, ErrLaunchOutOfResources, "kernel %s: a block of %d threads with %d registers each, but the device has registers for %d: compile it with __launch_bounds__(%d)",
				f.name, threads, f.attr.Regs, most, threads)
		}
		return errorf(call, ErrInvalidValue, "kernel %s: a block of %d threads, but the kernel can have %d", f.name, threads, most)
	}
	if sum := uint64(f.attr.SharedBytes) + uint64(cfg.Shared); sum > dev.params[drm.ParamSharedPerBlock] {
		return errorf(call, ErrInvalidValue, "kernel %s: %d bytes of shared memory in a block, %d of them dynamic, but the device has %d",
			f.name, sum, cfg.Shared, dev.params[drm.ParamSharedPerBlock])
	}
	return nil
}

// packParams lays arguments out as the kernel expects them.
func packParams(attr drm.FunctionAttributes, args []any) ([]byte, error) {
	if len(args) != len(attr.Params) {
		return nil, fmt.Errorf("%d arguments for %d parameters", len(args), len(attr.Params))
	}
	b := make([]byte, attr.ParamBytes)
	for i, p := range attr.Params {
		if err := packParam(b[p.Offset:p.Offset+p.Size], args[i]); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
	}
	return b, nil
}

func packParam(dst []byte, arg any) error {
	var bits uint64
	var size int
	switch v := arg.(type) {
	case DevicePtr:
		bits, size = uint64(v), 8
	case int8:
		bits, size = uint64(v), 1
	case uint8:
		bits, size = uint64(v), 1
	case int16:
		bits, size = uint64(v), 2
	case uint16:
		bits, size = uint64(v), 2
	case int32:
		bits, size = uint64(v), 4
	case uint32:
		bits, size = uint64(v), 4
	case int64:
		bits, size = uint64(v), 8
	case uint64:
		bits, size = v, 8
	case float32:
		bits, size = uint64(math.Float32bits(v)), 4
	case float64:
		bits, size = math.Float64bits(v), 8
	case int:
		bits, size = uint64(v), 8
		if len(dst) == 4 {
			if int64(v) < math.MinInt32 || int64(v) > math.MaxUint32 {
				return fmt.Errorf("%d does not fit in a parameter of 4 bytes", v)
			}
			size = 4
		}
	case []byte:
		if len(v) != len(dst) {
			return fmt.Errorf("%d bytes for a parameter of %d", len(v), len(dst))
		}
		copy(dst, v)
		return nil
	default:
		return fmt.Errorf("a %T cannot be passed to a kernel; use a DevicePtr, a sized number or []byte", arg)
	}
	if size != len(dst) {
		return fmt.Errorf("a %T for a parameter of %d bytes", arg, len(dst))
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], bits)
	copy(dst, word[:])
	return nil
}

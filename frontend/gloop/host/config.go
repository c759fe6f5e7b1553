package host

import (
	"errors"
	"fmt"
	"math"
	"time"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/abi"
)

// Config is a program and how it runs.
type Config struct {
	Module *cuda.Module // PTX of sources that include gloop.h, in Context
	Kernel string       // whose first parameter is a gloop::Launch

	Context *cuda.Context
	Grid    [3]uint32 // logical blocks; 0 stands for 1 in Y and Z
	Block   [3]uint32 // threads of a block; 0 stands for 1 in Y and Z
	Shared  uint32    // dynamic shared memory of a block, bytes
	Blocks  int       // physical blocks, 0: as many as run at once, but maxResident a multiprocessor; never more than logical ones

	// Pool, if it is not nil, keeps what runs allocate for the next ones. It is of Context.
	Pool *Pool

	// Memory is granted memory in which kernels have buffers: files and sockets are read into it and
	// written from it in place. Other buffers go through bounce buffers.
	Memory []*cuda.HostMem

	Slice    time.Duration // of the GPU's time; loops look at the signal word each quarter of it. 0: 10 ms
	Spin     time.Duration // how long loops wait on the GPU for events when none has work. 0: 200 µs
	Relaunch time.Duration // asks a kernel to leave that has run for that long, and goes on at once. 0: never
	Timeout  time.Duration // of calls that wait for a peer, and name none. 0: none
	PathMax  int           // bytes of a path, and one more. 0: 256
	Handles  int           // files and sockets that may be open at once. 0: 1024
	Threads  int           // that read and write files at once. 0: 8
	Every    uint32        // tests: loops leave after so many callbacks; 0: never

	// Bound, if it is not nil, is called when the kernel has opened a server, with its address.
	Bound func(address string)
}

// Stats is what a run has done.
type Stats struct {
	Launches  int           // of the kernel
	Callbacks uint64        // that ran, bodies of logical blocks included
	Looks     uint64        // at the signal word
	Requests  uint64        // served
	Direct    uint64        // bytes that files and sockets moved to or from granted memory
	Bounced   uint64        // and to or from device memory, through bounce buffers
	GPU       time.Duration // from each launch to its end
	Waiting   time.Duration // without a kernel, until an event ended
}

// A program's faults.
var (
	ErrSlots     = errors.New("a block has more than 64 callbacks pending: wait for some before the next ones")
	ErrCoalesced = errors.New("threads of a block made different calls of GLoop: all must make the same ones, at the same place")
	ErrVersion   = fmt.Errorf("the kernel includes a gloop.h of another version than %d: compile it again", abi.Version)
)

const (
	defaultSlice   = 10 * time.Millisecond
	defaultSpin    = 200 * time.Microsecond
	defaultPath    = 256
	defaultHandles = 1024
	defaultThreads = 8
	maxBlocks      = 1 << 16
)

// check fills in what was left out, and refuses what cannot be.
func (c *Config) check() error {
	if c.Context == nil || c.Module == nil || c.Kernel == "" {
		return errors.New("gloop: Config needs Context, Module and Kernel")
	}
	logical := uint64(1)
	for i := range 3 {
		if i > 0 {
			c.Grid[i], c.Block[i] = max(c.Grid[i], 1), max(c.Block[i], 1)
		}
		if logical *= uint64(c.Grid[i]); logical == 0 || logical > math.MaxInt64>>32 {
			return fmt.Errorf("gloop: %v logical blocks", c.Grid)
		}
	}
	c.Slice = or(c.Slice, defaultSlice)
	c.Spin = or(c.Spin, defaultSpin)
	c.PathMax = or(c.PathMax, defaultPath)
	c.Handles = or(c.Handles, defaultHandles)
	c.Threads = or(c.Threads, defaultThreads)
	switch {
	case c.Blocks < 0 || c.Blocks > maxBlocks:
		return fmt.Errorf("gloop: %d physical blocks; 1 to %d are possible", c.Blocks, maxBlocks)
	case c.Pool != nil && c.Pool.ctx != c.Context:
		return errors.New("gloop: Config.Pool is of another context")
	case c.Block[0] == 0:
		return errors.New("gloop: Config.Block is empty")
	case c.Slice < 0 || c.Spin < 0 || c.Relaunch < 0 || c.Timeout < 0:
		return errors.New("gloop: a time below 0")
	case c.PathMax < 0 || c.PathMax > abi.MaxText || c.Handles < 0 || c.Threads < 0:
		return fmt.Errorf("gloop: PathMax is %d (at most %d), Handles %d, Threads %d", c.PathMax, abi.MaxText, c.Handles, c.Threads)
	}
	return nil
}

// maxResident is how many physical blocks a multiprocessor has at most where Config does not say: each has some
// 40 KB of device memory.
const maxResident = 8

// place settles the number of physical blocks.
func (c *Config) place(f *cuda.Function) {
	if c.Blocks == 0 {
		dev, a := c.Context.Device(), f.Attributes()
		n, _ := dev.Attribute(cuda.AttributeMultiprocessorCount) // is known
		threads := uint64(c.Block[0]) * uint64(c.Block[1]) * uint64(c.Block[2])
		each := dev.Multiprocessor().Resident(int(min(threads, math.MaxInt32)), int(a.Regs), uint64(a.SharedBytes)+uint64(c.Shared))
		c.Blocks = max(n, 1) * min(max(each, 1), maxResident)
	}
	c.Blocks = int(min(uint64(c.Blocks), c.logical()))
}

// or is v, or what stands for 0.
func or[T time.Duration | int](v, zero T) T {
	if v == 0 {
		return zero
	}
	return v
}

func (c *Config) logical() uint64 {
	return uint64(c.Grid[0]) * uint64(c.Grid[1]) * uint64(c.Grid[2])
}

package ir

import (
	"fmt"
	"math"
	"math/bits"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/tlb"
	"pvdrm/gpu/softgpu/internal/heap"
)

// AllLanes is the mask of a warp whose 32 lanes all run.
const AllLanes = math.MaxUint32

// Warp is the state of 32 threads that operations read and write. The registers
// in view are those of the running frame.
type Warp struct {
	// The running fragment.
	R32   [][32]uint32
	R64   [][32]uint64
	Pr    []uint32 // a bit for each lane
	Mask  uint32   // lanes that run
	Live  uint32   // lanes that have not exited; lanes beyond the block's end count as exited
	Frame *Frame
	PC    int32
	Index int // in the block

	Rest   []Fragment // the other fragments
	Budget int        // loop heads left of the quantum
	Grace  int        // bounded calls left that a turn without a quantum may make

	Block  *Block
	Worker *Worker

	// Backing stores of registers and of local memory, grown by calls.
	Store32 [][32]uint32
	Store64 [][32]uint64
	StorePr []uint32
	Local   [][32]uint32 // row n holds bytes 4n to 4n+3 of each lane's local memory

	Tid [3][32]uint32

	// Scratch of operations; variables of theirs would be allocated each time.
	Old32 [32]uint32
	Old64 [32]uint64
	Lane  int // for which Texel reads

	Groups uint32 // wgmma.commit_group that the warp has run
}

// Block is what operations see of the block that runs.
type Block struct {
	Prog       *Program
	Fn         *Function // the kernel
	ID         [3]uint32
	Dims       [3]uint32
	Grid       [3]uint32
	Words      [9]uint32 // for native code: dims, id and grid
	Place      Place
	Ended      bool // all threads have exited
	WarpCount  int
	Warps      []*Warp
	Dynamic    uint32 // bytes of dynamic .shared
	Workspace  uint64 // address of the grid's, in a cooperative launch; else 0
	StackBytes int    // call stack that a thread may use

	Shared []byte // backed by uint64s, so it is aligned
	Window tlb.Translation
	Params []byte
}

// Place is where a block lies in its cluster. A block without one is a cluster by itself, whose Peers
// may be nil.
type Place struct {
	Peers    []*Block // the blocks of the cluster by rank, this one included
	Rank     uint32
	Dims     [3]uint32 // blocks of the cluster
	Explicit bool      // the launch or the kernel says how large clusters are
}

// Own is the first address of the block's .shared.
func (b *Block) Own() uint64 { return uint64(b.Place.Rank) << tlb.ClusterShift }

// At returns the block of the cluster in whose .shared an address lies, and the offset there, which may
// lie beyond what the block has. It returns nil where the cluster has no such block, or it has ended.
func (b *Block) At(addr uint64) (at *Block, offset uint64) {
	rank, offset := addr>>tlb.ClusterShift, addr&(1<<tlb.ClusterShift-1)
	switch {
	case rank == uint64(b.Place.Rank):
		return b, offset
	case rank < uint64(len(b.Place.Peers)) && !b.Place.Peers[rank].Ended:
		return b.Place.Peers[rank], offset
	}
	return nil, 0
}

// Worker is what operations see of the goroutine that runs blocks.
type Worker struct {
	TLB     tlb.TLB
	ID      int
	Workers int    // of the launch
	Launch  uint64 // number of the launch, for %gridid
	Cycles  uint64 // of the running block; see Model
	Model   *Model
	Print   func(text string)
	Heap    *heap.Heap // of malloc and free
	// Launcher takes launches by kernels; nil: there are none.
	Launcher Launcher
	Fence    uint32 // written by memory fences, for its effect on the order of accesses
	Tex      TexCache
	Tile     *Tile // of instructions on matrices; nil before the first
	Row      *Tile // of a row of those on sparse ones
	Group    *GroupTile
	Tensor   *TensorCache // of copies of boxes; nil before the first
}

// Frame is one activation of a function. All lanes that made the call together
// share it; lanes that called the same function apart have frames of their own,
// which may lie in the same rows of the stores, since a lane owns its column.
type Frame struct {
	Parent  *Frame
	Fn      *Function
	Site    *CallSite // of the call; nil for a kernel
	Ret     int32     // position after the call
	Depth   int32
	Base32  int
	Base64  int
	BasePr  int
	Base    int // first row of local memory
	Top     int // row after the frame's local memory; grows by alloca
	Stacked int // bytes of the call stack up to and with this frame
}

// Called is the frame of fn that a call in frame f makes. The call returns to a position.
func (f *Frame) Called(fn *Function, site *CallSite, ret int32) Frame {
	return Frame{
		Parent: f, Fn: fn, Site: site, Ret: ret, Depth: f.Depth + 1,
		Base32: f.Base32 + f.Fn.Regs32, Base64: f.Base64 + f.Fn.Regs64, BasePr: f.BasePr + f.Fn.Preds,
		Base: f.Top, Top: f.Top + fn.LocalBytes/4, Stacked: f.StackBytes() + fn.FrameBytes,
	}
}

// View makes f the frame of which the registers are in view.
func (w *Warp) View(f *Frame) {
	w.Frame = f
	w.R32 = w.Store32[f.Base32 : f.Base32+f.Fn.Regs32]
	w.R64 = w.Store64[f.Base64 : f.Base64+f.Fn.Regs64]
	w.Pr = w.StorePr[f.BasePr : f.BasePr+f.Fn.Preds]
}

// StackBytes is what a thread in frame f has of the call stack.
func (f *Frame) StackBytes() int {
	return f.Stacked + 4*(f.Top-f.Base) - f.Fn.LocalBytes
}

// State is what a fragment waits for.
type State uint8

const (
	Ready      State = iota
	AtBarrier        // for the other threads of the block
	AtSync           // for other lanes of the warp
	Asleep           // for the time in Fragment.Barrier
	AtChildren       // for what the kernel has launched
)

// Fragment is a group of lanes of a warp that run together.
type Fragment struct {
	Mask  uint32
	PC    int32
	Frame *Frame
	State State

	Wait    *Inst  // the instruction, for AtBarrier
	Barrier uint32 // of Asleep: when it wakes, in microseconds of a clock that wraps
}

// Grow returns s with at least n elements.
func Grow[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n <= cap(s) {
		return s[:n]
	}
	size := n
	if len(s) != 0 {
		size = n + n/4
	}
	t := make([]T, n, size)
	copy(t, s)
	return t
}

func FirstOf(m uint32) int { return bits.TrailingZeros32(m) & 31 }

// First is the lowest active lane.
func (w *Warp) First() int { return bits.TrailingZeros32(w.Mask) & 31 }

// SetPred writes the active lanes of a predicate.
func (w *Warp) SetPred(p, m uint32) {
	if p != NoReg {
		w.Pr[p] = w.Pr[p]&^w.Mask | m&w.Mask
	}
}

// SetAll sets a predicate of all active lanes.
func (w *Warp) SetAll(p uint32, on bool) {
	if on {
		w.SetPred(p, AllLanes)
	} else {
		w.SetPred(p, 0)
	}
}

// Fail ends the kernel; the lowest active lane is named.
func (w *Warp) Fail(cause gpu.LostCause, detail string) { w.FailLane(w.First(), cause, detail) }

// FailLane ends the kernel with a fault of one lane.
func (w *Warp) FailLane(lane int, cause gpu.LostCause, detail string) {
	panic(w.lost(lane, cause, detail))
}

// FailAddress ends the kernel with a bad access of one lane.
func (w *Warp) FailAddress(lane int, cause gpu.LostCause, addr uint64, write bool, detail string) {
	e := w.lost(lane, cause, detail)
	e.Addr, e.Write = addr, write
	panic(e)
}

func (w *Warp) lost(lane int, cause gpu.LostCause, detail string) *gpu.LostError {
	e := &gpu.LostError{Cause: cause, Kernel: w.Block.Fn.Name, Block: w.Block.ID, Detail: detail}
	for i := range e.Thread {
		e.Thread[i] = w.Tid[i][lane]
	}
	if at := w.Block.Prog.position(w.PC); at != "" {
		if e.Detail != "" {
			e.Detail += ", "
		}
		e.Detail += "at " + at
	}
	return e
}

// position names the source line of an instruction.
func (p *Program) position(pc int32) string {
	if pc < 0 || int(pc) >= len(p.Lines) {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Lines[pc])
}

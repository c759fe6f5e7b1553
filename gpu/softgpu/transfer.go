package softgpu

import (
	"fmt"
	"time"

	"pvdrm/gpu"
)

// How much the copy engine does under one hold of the address space, and how
// many such slices before it looks whether another channel waits. The first
// bounds how long Unmap and Close wait, the second how long other channels do.
const (
	sliceBytes  = 1 << 20
	slicePieces = 1 << 12 // rows, or parts of them
	turnSlices  = 16
)

// mover moves bytes between addresses of one view during one slice. It may
// keep translations because it holds the address space's lock.
type mover struct {
	view     view
	src, dst piece
	left     uint64 // bytes of this slice
	moved    uint64 // bytes of this slice
}

// piece is a translation.
type piece struct {
	mem  []byte
	base uint64
	prot gpu.Prot
}

// at returns the memory from va to the end of the piece that holds it.
func (m *mover) at(p *piece, va uint64, need gpu.Prot) ([]byte, *gpu.LostError) {
	if va-p.base >= uint64(len(p.mem)) {
		mem, base, prot, ok := m.view.space.lookup(m.view.directory, va)
		if !ok {
			return nil, &gpu.LostError{Cause: gpu.LostAddress, Addr: va, Write: need == gpu.ProtWrite, Detail: "not mapped"}
		}
		*p = piece{mem, base, prot}
	}
	if p.prot&need == 0 {
		return nil, &gpu.LostError{Cause: gpu.LostAddress, Addr: va, Write: need == gpu.ProtWrite, Detail: "mapped read-only"}
	}
	return p.mem[va-p.base:], nil
}

// job is a transfer in progress. Step does a part of it, at most a slice.
type job interface {
	step(m *mover) (more bool, fault *gpu.LostError)
}

// transfer runs a job on the copy engine.
func (c *channel) transfer(j job) error {
	e := &c.ctx.dev.copy
	for {
		if !e.acquire(c) {
			return c.halted()
		}
		start, before := time.Now(), c.moved
		more, err := c.hold(e, j)
		used := time.Since(start)
		if c.ctx.dev.config.ModelTime {
			used = time.Duration((c.moved - before) / copyBytesPerNS)
		}
		e.release(used)
		if err != nil || !more {
			return err
		}
	}
}

// hold does slices of a job until it ends, fails, or has to give way.
func (c *channel) hold(e *engine, j job) (more bool, err error) {
	for n := 1; ; n++ {
		more, fault := c.slice(j)
		if fault != nil {
			return false, c.fault(fault)
		}
		if !more {
			return false, nil
		}
		if err := c.ctx.Err(); err != nil {
			return false, err
		}
		if n%turnSlices == 0 && e.contended() {
			return true, nil
		}
	}
}

// slice does one step of a job.
func (c *channel) slice(j job) (more bool, fault *gpu.LostError) {
	m := mover{view: c.view(), left: sliceBytes}
	defer func() {
		c.moved += m.moved
		c.ctx.dev.copyBytes.Add(m.moved)
	}()
	s := c.ctx.space
	s.mu.RLock()
	defer s.mu.RUnlock()
	defer touch(&fault)
	return j.step(&m)
}

// touch turns a fault of the host into one of the context: system memory that
// its owner truncated away. It is to be deferred in a goroutine that has set
// debug.SetPanicOnFault. Other panics go on.
func touch(fault **gpu.LostError) {
	p := recover()
	if p == nil {
		return
	}
	if _, ok := p.(interface{ Addr() uintptr }); !ok {
		panic(p)
	}
	*fault = &gpu.LostError{Cause: gpu.LostDevice, Detail: fmt.Sprintf("system memory is gone: %v", p)}
}

// rows is the shape of a transfer and how far it has come.
type rows struct {
	width, height uint64
	row, col      uint64
}

func (p *rows) done() bool { return p.width == 0 || p.row == p.height }

// advance moves on by n bytes of the current row.
func (p *rows) advance(m *mover, n uint64) {
	m.left -= n
	m.moved += n
	if p.col += n; p.col == p.width {
		p.row, p.col = p.row+1, 0
	}
}

// checkRows says whether rows of the given pitch lie within 64 bits of address.
func checkRows(what string, va, width, height, pitch uint64) error {
	if height == 0 {
		return fmt.Errorf("%w: a transfer of no rows", gpu.ErrInvalid)
	}
	last := va // of the rows, the address of the last
	if height > 1 {
		if pitch < width {
			return fmt.Errorf("%w: %s pitch %d is less than the width %d", gpu.ErrInvalid, what, pitch, width)
		}
		if pitch != 0 && height-1 > (^uint64(0)-va)/pitch {
			return fmt.Errorf("%w: %s of %d rows at 0x%x wraps around", gpu.ErrInvalid, what, height, va)
		}
		last += (height - 1) * pitch
	}
	if width > ^uint64(0)-last {
		return fmt.Errorf("%w: %s of %d bytes at 0x%x wraps around", gpu.ErrInvalid, what, width, last)
	}
	return nil
}

type copyJob struct {
	gpu.Copy
	rows
}

func (c *channel) copyBytes(cmd *gpu.Copy) error {
	if cmd == nil {
		return fmt.Errorf("%w: nil copy", gpu.ErrInvalid)
	}
	j := &copyJob{Copy: *cmd, rows: rows{width: cmd.Width, height: cmd.Height}}
	if err := checkRows("source", j.Src, j.Width, j.Height, j.SrcPitch); err != nil {
		return err
	}
	if err := checkRows("destination", j.Dst, j.Width, j.Height, j.DstPitch); err != nil {
		return err
	}
	return c.transfer(j)
}

func (j *copyJob) step(m *mover) (more bool, fault *gpu.LostError) {
	for range slicePieces {
		if j.done() || m.left == 0 {
			break
		}
		src, fault := m.at(&m.src, j.Src+j.row*j.SrcPitch+j.col, gpu.ProtRead)
		if fault != nil {
			return false, fault
		}
		dst, fault := m.at(&m.dst, j.Dst+j.row*j.DstPitch+j.col, gpu.ProtWrite)
		if fault != nil {
			return false, fault
		}
		n := min(j.width-j.col, m.left, uint64(len(src)), uint64(len(dst)))
		copy(dst[:n], src[:n])
		j.advance(m, n)
	}
	return !j.done(), nil
}

type fillJob struct {
	gpu.Fill
	rows
}

func (c *channel) fill(cmd *gpu.Fill) error {
	if cmd == nil {
		return fmt.Errorf("%w: nil fill", gpu.ErrInvalid)
	}
	j := &fillJob{Fill: *cmd, rows: rows{width: cmd.Width, height: cmd.Height}}
	size := uint64(j.Size)
	if size != 1 && size != 2 && size != 4 {
		return fmt.Errorf("%w: a pattern of %d bytes; it has 1, 2 or 4", gpu.ErrInvalid, size)
	}
	if j.Dst%size != 0 || j.Width%size != 0 || j.Height > 1 && j.Pitch%size != 0 {
		return fmt.Errorf("%w: address 0x%x, width %d and pitch %d must be multiples of the pattern's %d bytes",
			gpu.ErrInvalid, j.Dst, j.Width, j.Pitch, size)
	}
	if err := checkRows("fill", j.Dst, j.Width, j.Height, j.Pitch); err != nil {
		return err
	}
	return c.transfer(j)
}

func (j *fillJob) step(m *mover) (more bool, fault *gpu.LostError) {
	for range slicePieces {
		if j.done() || m.left == 0 {
			break
		}
		dst, fault := m.at(&m.dst, j.Dst+j.row*j.Pitch+j.col, gpu.ProtWrite)
		if fault != nil {
			return false, fault
		}
		// Pages and slices are multiples of 4, so that pieces hold whole patterns.
		dst = dst[:min(j.width-j.col, m.left, uint64(len(dst)))]
		for i := range min(int(j.Size), len(dst)) {
			dst[i] = byte(j.Pattern >> (8 * i))
		}
		for n := int(j.Size); n < len(dst); n *= 2 {
			copy(dst[n:], dst[:n])
		}
		j.advance(m, uint64(len(dst)))
	}
	return !j.done(), nil
}

type timestampJob struct {
	va  uint64
	now func() uint64
}

func (c *channel) timestamp(cmd *gpu.Timestamp) error {
	if cmd == nil {
		return fmt.Errorf("%w: nil timestamp", gpu.ErrInvalid)
	}
	if cmd.VA%8 != 0 {
		return fmt.Errorf("%w: timestamp at 0x%x, which is not a multiple of 8", gpu.ErrInvalid, cmd.VA)
	}
	return c.transfer(timestampJob{cmd.VA, c.ctx.dev.now})
}

func (j timestampJob) step(m *mover) (more bool, fault *gpu.LostError) {
	dst, fault := m.at(&m.dst, j.va, gpu.ProtWrite)
	if fault != nil {
		return false, fault
	}
	storeWord(dst[:8], j.now())
	return false, nil
}

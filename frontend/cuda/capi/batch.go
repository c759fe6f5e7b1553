package capi

import (
	"encoding/binary"
	"errors"
	"math"

	"pvdrm/frontend/cuda"
)

// Batches of copies. They run one after the other on the stream, which CUDA permits.

// maxBatch bounds what a batch reads of the program.
const maxBatch = 1 << 20

// Layouts of CUmemcpyAttributes and CUDA_MEMCPY3D_BATCH_OP. An operand of the latter is a kind, and from
// operandAt on an address, the length of a row and the rows of a layer, or an array and a position in it.
const (
	copyAttributesBytes = 24
	copyAttributesFlags = 20

	batchOpBytes  = 112
	operandBytes  = 40
	operandAt     = 8
	batchExtent   = 80
	batchOrder    = 104
	batchFlags    = 108
	operandMemory = 1
	operandArray  = 2
)

// CUmemcpySrcAccessOrder: when the source is read.
const (
	orderStream = 1
	orderCall   = 2 // before the call returns
	orderAny    = 3
)

// overlap is CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE, a hint.
const overlap = 1

// batchStream finds the stream of a batch, which is not the legacy one.
func (c *call) batchStream(i int) (*context, *cuda.Stream, error) {
	if h := c.u64(i); h == streamLegacy || h == 0 && !c.perThread {
		return nil, nil, c.fail(cuda.ErrInvalidValue, "the legacy stream takes no batches")
	}
	return c.stream(i)
}

// words64 reads n words of 8 bytes of the array in argument i, of a batch of so many.
func (c *call) words64(i int, n uint64) ([]uint64, error) {
	if n == 0 || n > maxBatch {
		return nil, c.fail(cuda.ErrInvalidValue, "%d elements; up to %d are possible", n, maxBatch)
	}
	b, err := c.read(c.u64(i), int(8*n))
	if err != nil {
		return nil, err
	}
	list := make([]uint64, n)
	for k := range list {
		list[k] = le64(b[8*k:])
	}
	return list, nil
}

// sections reads n positions, argument at, at which attributes begin to hold for the elements of a batch of so many.
func (c *call) sections(at int, n, count uint64) ([]uint64, error) {
	if n > count {
		return nil, c.fail(cuda.ErrInvalidValue, "%d attributes for %d elements", n, count)
	}
	list, err := c.words64(at, n)
	if err != nil {
		return nil, err
	}
	for k, from := range list {
		if k == 0 && from != 0 || k > 0 && from <= list[k-1] || from >= count {
			return nil, c.fail(cuda.ErrInvalidValue, "attributes %d hold from element %d of %d on", k, from, count)
		}
	}
	return list, nil
}

// accessOrder checks when the source of a copy is read, and its flags.
func (c *call) accessOrder(order, flags uint32) error {
	if order < orderStream || order > orderAny || flags&^overlap != 0 {
		return c.fail(cuda.ErrInvalidValue, "access to the source of kind %d, flags 0x%x", order, flags)
	}
	return nil
}

// memcpyBatch gets (destinations, sources, sizes, count, attributes, their positions, their number, failed, stream).
func memcpyBatch(c *call) error {
	failed, err := c.optional(7, 8)
	if err != nil {
		return err
	}
	at, err := c.batch(8)
	if err != nil {
		return errors.Join(err, failed.set(at))
	}
	return nil
}

// memcpyBatchV2 is without the position of what has failed.
func memcpyBatchV2(c *call) error {
	_, err := c.batch(7)
	return err
}

// batch returns the position of the copy that is wrong, all ones if none is.
func (c *call) batch(stream int) (wrong uint64, err error) {
	wrong = math.MaxUint64
	x, s, err := c.batchStream(stream)
	if err != nil {
		return wrong, err
	}
	count := c.u64(3)
	var lists [3][]uint64
	for i := range lists {
		if lists[i], err = c.words64(i, count); err != nil {
			return wrong, err
		}
	}
	from, err := c.sections(5, c.u64(6), count)
	if err != nil {
		return wrong, err
	}
	attributes, err := c.read(c.u64(4), copyAttributesBytes*len(from))
	if err != nil {
		return wrong, err
	}
	waits := false
	for k := range from {
		order := le32(attributes[copyAttributesBytes*k:])
		if err := c.accessOrder(order, le32(attributes[copyAttributesBytes*k+copyAttributesFlags:])); err != nil {
			return from[k], err
		}
		waits = waits || order == orderCall
	}
	for i, n := range lists[2] {
		if n == 0 || lists[0][i] == 0 || lists[1][i] == 0 {
			return uint64(i), c.fail(cuda.ErrInvalidValue, "copy %d is of %d bytes from 0x%x to 0x%x", i, n, lists[1][i], lists[0][i])
		}
	}
	for i, n := range lists[2] {
		if err := c.box(x, s, c.locate(x, lists[0][i]), c.locate(x, lists[1][i]), extent{n, 1, 1}, true); err != nil {
			return uint64(i), err
		}
	}
	if waits {
		return wrong, c.settle(x, s, s.Synchronize)
	}
	return wrong, nil
}

// memcpy3DBatch gets (count, copies, failed, flags, stream).
func memcpy3DBatch(c *call) error {
	failed, err := c.optional(2, 8)
	if err != nil {
		return err
	}
	at, err := c.boxes(c.u64(3), 4)
	if err != nil {
		return errors.Join(err, failed.set(at))
	}
	return nil
}

// memcpy3DBatchV2 is without the position of what has failed.
func memcpy3DBatchV2(c *call) error {
	_, err := c.boxes(c.u64(2), 3)
	return err
}

func (c *call) boxes(flags uint64, stream int) (wrong uint64, err error) {
	wrong = math.MaxUint64
	x, s, err := c.batchStream(stream)
	if err != nil {
		return wrong, err
	}
	n := c.u64(0)
	if n == 0 || n > maxBatch || flags != 0 {
		return wrong, c.fail(cuda.ErrInvalidValue, "%d copies, flags 0x%x", n, flags)
	}
	b, err := c.read(c.u64(1), int(n)*batchOpBytes)
	if err != nil {
		return wrong, err
	}
	list := make([]boxCopy, n)
	waits := false
	for i := range list {
		op := b[batchOpBytes*i:][:batchOpBytes]
		if list[i], err = c.boxCopy(x, op); err != nil {
			return uint64(i), err
		}
		waits = waits || le32(op[batchOrder:]) == orderCall
	}
	for i, p := range list {
		if p.e.width == 0 || p.e.height == 0 || p.e.depth == 0 {
			continue
		}
		if err := c.box(x, s, p.dst, p.src, p.e, true); err != nil {
			return uint64(i), err
		}
	}
	if waits {
		return wrong, c.settle(x, s, s.Synchronize)
	}
	return wrong, nil
}

// boxCopy is one copy of a batch.
type boxCopy struct {
	dst, src place
	e        extent
}

// boxCopy decodes a CUDA_MEMCPY3D_BATCH_OP. Its numbers are of elements: those of its array, else bytes.
func (c *call) boxCopy(x *context, op []byte) (p boxCopy, err error) {
	if err := c.accessOrder(le32(op[batchOrder:]), le32(op[batchFlags:])); err != nil {
		return p, err
	}
	element, found := uint64(1), false
	for _, end := range [][]byte{op[:operandBytes], op[operandBytes:]} {
		if le32(end) != operandArray {
			continue
		}
		a, err := c.arrayIn(x, le64(end[operandAt:]))
		if err != nil {
			return p, err
		}
		if size := uint64(a.place.Format.Size()) * uint64(a.place.Channels); found && size != element {
			return p, c.fail(cuda.ErrInvalidValue, "arrays with elements of %d and %d bytes", element, size)
		} else {
			element, found = size, true
		}
	}
	p.e = extent{le64(op[batchExtent:]), le64(op[batchExtent+8:]), le64(op[batchExtent+16:])}
	if p.e.width > math.MaxInt64/element {
		return p, c.fail(cuda.ErrInvalidValue, "rows of %d elements", p.e.width)
	}
	p.e.width *= element
	if p.src, err = c.operand(x, op[:operandBytes], p.e, element); err == nil {
		p.dst, err = c.operand(x, op[operandBytes:2*operandBytes], p.e, element)
	}
	return p, err
}

// operand puts an end of a copy of a batch as CUDA_MEMCPY3D has one.
func (c *call) operand(x *context, end []byte, e extent, element uint64) (place, error) {
	raw := make([]byte, copy3DBytes)
	put := func(at int, v uint64) { binary.LittleEndian.PutUint64(raw[at:], v) }
	field := func(n int) uint64 { return le64(end[operandAt+8*n:]) }
	switch kind := le32(end); kind {
	case operandMemory:
		if field(1) > math.MaxInt64/element {
			return place{}, c.fail(cuda.ErrInvalidValue, "rows of %d elements", field(1))
		}
		binary.LittleEndian.PutUint32(raw[copy3DSrc.kind:], memoryUnified)
		put(copy3DSrc.device, field(0))
		put(copy3DSrc.pitch, field(1)*element)
		put(copy3DSrc.height, field(2))
	case operandArray:
		if field(1) > math.MaxInt64/element {
			return place{}, c.fail(cuda.ErrInvalidValue, "element %d of a row", field(1))
		}
		binary.LittleEndian.PutUint32(raw[copy3DSrc.kind:], memoryArray)
		put(copy3DSrc.array, field(0))
		put(copy3DSrc.x, field(1)*element)
		put(copy3DSrc.y, field(2))
		put(copy3DSrc.z, field(3))
	default:
		return place{}, c.fail(cuda.ErrInvalidValue, "an operand of kind %d", kind)
	}
	if e.width == 0 || e.height == 0 || e.depth == 0 {
		return place{}, nil
	}
	return c.endOf(x, raw, copy3DSrc, e)
}

package nvidia

import (
	"encoding/binary"
	"fmt"

	"pvdrm/gpu"
)

// Questions that the driver answers without the GPU. The worker asks it; the driver checks what it is asked.

// Places of values in the questions, as package drm has them.
const (
	tensorDims    = 10
	tensorStrides = tensorDims + 5
	tensorBoxes   = tensorStrides + 5
	tensorSteps   = tensorBoxes + 5
	tensorCorners = tensorSteps + 5
	tensorValues  = tensorCorners + 6
	tensorWords   = 16 // of an encoded map

	clusterValues = 10
)

// Ask implements gpu.Asker.
func (c *context) Ask(q gpu.Question, f gpu.Function, values []uint64) ([]uint64, error) {
	answer, err := c.ask(q, f, values)
	return answer, c.wrap("asking the driver", err)
}

func (c *context) ask(q gpu.Question, f gpu.Function, values []uint64) ([]uint64, error) {
	request, most := &request{Op: opAsk, Slot: int(q), Values: values}, 1
	switch q {
	case gpu.AskTensorMap:
		if len(values) != tensorValues {
			return nil, fmt.Errorf("%w: a tensor map of %d values", gpu.ErrInvalid, len(values))
		}
		most = tensorWords
	case gpu.AskClusters, gpu.AskClusterSize:
		fn, ok := f.(*function)
		if !ok || fn == nil || fn.mod.ctx != c || fn.mod.closed.Load() || len(values) != clusterValues {
			return nil, fmt.Errorf("%w: a question about clusters of no kernel of this context", gpu.ErrInvalid)
		}
		request.ID = fn.handle
	case gpu.AskFree:
		if c.dev.config.VRAMBytes != 0 {
			return nil, fmt.Errorf("%w: a guest with a limit learns nothing of what others have", gpu.ErrInvalid)
		}
		if len(values) != 0 {
			return nil, fmt.Errorf("%w: free memory has no values", gpu.ErrInvalid)
		}
	default:
		return nil, fmt.Errorf("%w: question %d", gpu.ErrInvalid, q)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var r reply
	if err := c.do(request, nil, &r); err != nil {
		return nil, err
	}
	if len(r.Values) != most {
		return nil, errAnswer
	}
	return r.Values, nil
}

// ask answers a question in the worker. The backend has counted its values.
func (w *worker) ask(q *request, r *reply) error {
	switch gpu.Question(q.Slot) {
	case gpu.AskTensorMap:
		return w.tensorMap(q.Values, r)
	case gpu.AskClusters, gpu.AskClusterSize:
		return w.clustersOf(q, r)
	case gpu.AskFree:
		return w.left(r)
	}
	return fmt.Errorf("unknown question %d", q.Slot)
}

// left asks how much memory the GPU has left. A refusal, such as of a filter that an older driver meets, is no fault of
// the context.
func (w *worker) left(r *reply) error {
	var free, total uint64
	if code := w.drv.memGetInfo(&free, &total); code != resultOK {
		return &driverError{Call: "cuMemGetInfo", Code: resultInvalidValue, Name: w.drv.errorName(code)}
	}
	r.Values = []uint64{free}
	return nil
}

// tensorMap encodes a tensor map.
func (w *worker) tensorMap(v []uint64, r *reply) error {
	d := w.drv
	if d.tensorMapTiled == nil || d.tensorMapIm2col == nil {
		return &driverError{Call: "cuTensorMapEncodeTiled", Code: resultInvalidValue, Name: "the driver has no tensor maps; install one for CUDA 12"}
	}
	var m tensorMap
	strides, corners := v[tensorStrides+1:tensorBoxes], v[tensorCorners:tensorValues]
	copy(m.dims[:], v[tensorDims:tensorStrides])
	copy(m.strides[:], strides)
	for i := range m.boxes {
		m.boxes[i], m.steps[i] = uint32(v[tensorBoxes+i]), uint32(v[tensorSteps+i])
	}
	for i := range m.lower {
		m.lower[i], m.upper[i] = int32(corners[i]), int32(corners[3+i])
	}
	for i, to := range []*uint32{&m.kind, &m.rank} {
		*to = uint32(v[1+i])
	}
	m.base = v[3]
	for i, to := range []*uint32{&m.interleave, &m.swizzle, &m.promotion, &m.fill, &m.channels, &m.pixels} {
		*to = uint32(v[4+i])
	}
	encode, name := d.tensorMapTiled, "cuTensorMapEncodeTiled"
	if v[0] != 0 {
		encode, name = d.tensorMapIm2col, "cuTensorMapEncodeIm2col"
	}
	if err := d.check(name, encode(&m)); err != nil {
		return err
	}
	for i := range tensorWords {
		r.Values = append(r.Values, binary.LittleEndian.Uint64(m.out[8*i:]))
	}
	return nil
}

// clustersOf asks how many clusters run at the same time, or how large they may be.
func (w *worker) clustersOf(q *request, r *reply) error {
	d, v := w.drv, q.Values
	if d.activeClusters == nil {
		return &driverError{Call: "cuOccupancyMaxActiveClusters", Code: resultInvalidValue, Name: "the driver has no clusters"}
	}
	l := launchArgs{shared: uint32(v[9])}
	for i := range 3 {
		l.grid[i], l.block[i], l.cluster[i] = uint32(v[i]), uint32(v[3+i]), uint32(v[6+i])
	}
	var n int32
	if err := d.check("cuOccupancyMaxActiveClusters", d.activeClusters(&n, uintptr(q.ID), &l, gpu.Question(q.Slot) == gpu.AskClusterSize)); err != nil {
		return err
	}
	r.Values = []uint64{uint64(max(n, 0))}
	return nil
}

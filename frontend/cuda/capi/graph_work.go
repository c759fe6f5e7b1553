package capi

import (
	"cmp"
	"encoding/binary"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// The work of nodes. None of it changes once it is in a graph, since clones share it.

// kernelWork is a launch.
type kernelWork struct {
	f       *function
	handle  uint64 // of a CUfunction or CUkernel, as the program gave it
	cfg     cuda.LaunchConfig
	cluster [3]uint32 // what cfg.Cluster, the kernel and the program come to
	params  []byte
	shown   *shown

	updatable *updatable // what kernels may change of it, or nil

	attributes map[uint32][]byte // values of launch attributes by number; cfg has what changes the launch
}

// shown is where the program sees the arguments of a launch.
type shown struct{ array uint64 }

// copyWork is a copy, as CUDA_MEMCPY3D.
type copyWork struct {
	x   *context
	raw []byte
}

// fillWork is a memset of rows of elements.
type fillWork struct {
	x             *context
	dst, pitch    uint64
	value         uint32
	element       uint32
	width, height uint64
}

// hostWork calls a function of the program.
type hostWork struct{ fn, data uint64 }

// eventWork records an event or waits for it.
type eventWork struct {
	e      *event
	handle uint64
}

func wordBytes(words []uint64) []byte {
	b := make([]byte, 0, 8*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// of is a call of the same thread with other arguments.
func (c *call) of(args ...uint64) *call {
	d := *c
	d.args = new([MaxArgs]uint64)
	copy(d.args[:], args)
	return &d
}

// in is a call with other arguments of a thread whose current context has a handle.
func (c *call) in(handle uint64) (*call, error) {
	d := c.of(handle)
	x, err := d.context(0)
	if err != nil {
		return nil, err
	}
	d.thread = &thread{id: c.thread.id, stack: []*context{x}}
	return d, nil
}

// kernelWork makes the work of a launch and checks it as the launch would be.
func (c *call) kernelWork(handle uint64, cfg cuda.LaunchConfig, kernelParams, extra uint64) (*kernelWork, error) {
	f, err := c.of(handle).function(0)
	if err != nil {
		return nil, err
	}
	if err := c.checkShape(f, cfg); err != nil {
		return nil, err
	}
	cluster, err := c.nodeCluster(f, &cfg)
	if err != nil {
		return nil, err
	}
	w := &kernelWork{cluster: cluster, f: f, handle: handle, cfg: cfg, shown: new(shown)}
	switch {
	case kernelParams != 0 && extra != 0:
		return nil, c.fail(cuda.ErrInvalidValue, "both kernelParams and extra are given")
	case kernelParams != 0:
		w.params, err = c.gather(f, kernelParams)
	case extra != 0:
		w.params, err = c.packedFor(f, extra)
	}
	if err != nil {
		return nil, err
	}
	return w, w.add(f.mod.ctx.NewBatch())
}

func (w *kernelWork) add(b *cuda.Batch) error {
	cfg := w.cfg
	cfg.Cluster = w.cluster
	return b.AddKernel(w.f.Function, cfg, w.params)
}

// Layouts of CUDA_KERNEL_NODE_PARAMS and CUDA_MEMSET_NODE_PARAMS; version 2 adds to the end.
const (
	kernelNodeBytes   = 56
	kernelNodeBytesV2 = 72
	fillNodeBytes     = 40
	fillNodeBytesV2   = 48
)

// readKernel reads CUDA_KERNEL_NODE_PARAMS, in version 2 with a CUkernel and a context.
func (c *call) readKernel(addr uint64, n int) (*kernelWork, error) {
	b, err := c.read(addr, n)
	if err != nil {
		return nil, err
	}
	handle := le64(b)
	if n == kernelNodeBytesV2 && handle == 0 {
		handle = le64(b[56:])
		if ctx := le64(b[64:]); ctx != 0 {
			if c, err = c.in(ctx); err != nil {
				return nil, err
			}
		}
	}
	var cfg cuda.LaunchConfig
	for i := range 3 {
		cfg.Grid[i], cfg.Block[i] = le32(b[8+4*i:]), le32(b[20+4*i:])
	}
	cfg.Shared = le32(b[32:])
	return c.kernelWork(handle, cfg, le64(b[40:]), le64(b[48:]))
}

// bytes is CUDA_KERNEL_NODE_PARAMS of version 2. The arguments lie in memory that is made when
// they are first asked for, and stays.
//
// Preconditions: graphs.mu is held.
func (w *kernelWork) bytes(c *call) []byte {
	if params := w.f.Attributes().Params; w.shown.array == 0 && len(params) > 0 {
		base := c.lib.cfg.Memory.Keep(w.params)
		words := make([]uint64, len(params))
		for i, p := range params {
			words[i] = base + uint64(p.Offset)
		}
		w.shown.array = c.lib.cfg.Memory.Keep(wordBytes(words))
	}
	fn, kern := w.handle, uint64(0)
	if _, ok := find[*kernel](c.lib, w.handle); ok {
		fn, kern = w.f.handle, w.handle
	}
	b := binary.LittleEndian.AppendUint64(nil, fn)
	for _, v := range [...]uint32{w.cfg.Grid[0], w.cfg.Grid[1], w.cfg.Grid[2], w.cfg.Block[0], w.cfg.Block[1], w.cfg.Block[2], w.cfg.Shared, 0} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(b, wordBytes([]uint64{w.shown.array, 0, kern, w.f.mod.ctx.handle})...)
}

// readCopy reads CUDA_MEMCPY3D and checks it.
func (c *call) readCopy(addr uint64, x *context) (*copyWork, error) {
	b, err := c.read(addr, copy3DBytes)
	if err != nil {
		return nil, err
	}
	return c.copyWork(x, b)
}

func (c *call) copyWork(x *context, raw []byte) (*copyWork, error) {
	if err := c.noLevels(raw); err != nil {
		return nil, err
	}
	w := &copyWork{x: x, raw: raw}
	if !w.extent().empty() {
		dst, src, err := w.ends(c)
		if err != nil {
			return nil, err
		}
		w.x = cmp.Or(c.ownerOf(x, dst), c.ownerOf(x, src), x) // whichever the program names
	}
	_, err := w.addTo(c, w.x.NewBatch())
	return w, err
}

// between returns the contexts of a copy that has its ends in two, and nil otherwise.
func (w *copyWork) between(c *call, dst, src place) (to, from *context) {
	to, from = c.ownerOf(w.x, dst), c.ownerOf(w.x, src)
	if to == nil || from == nil || to == from {
		return nil, nil
	}
	return to, from
}

func (w *copyWork) extent() extent {
	return extent{width: le64(w.raw[176:]), height: le64(w.raw[184:]), depth: le64(w.raw[192:])}
}

// ends finds both ends of the copy. Pinned memory counts as the device's, and so does memory of
// graphs, which no launch has allocated yet when the copy becomes a node.
func (w *copyWork) ends(c *call) (dst, src place, err error) {
	e := w.extent()
	ends := [2]place{}
	for i, l := range []endLayout{copy3DDst, copy3DSrc} {
		p, err := c.endOf(w.x, w.raw, l, e)
		if err != nil {
			return dst, src, err
		}
		if le32(w.raw[l.kind:]) == memoryUnified && w.x.InGraphMem(cuda.DevicePtr(p.addr)) {
			p.host = false
		}
		n, ok := p.span(e)
		if !ok {
			return dst, src, c.fail(cuda.ErrInvalidValue, "the copy ends outside of all memory")
		}
		if ends[i] = c.pin(w.x, p, n); ends[i].host {
			for _, at := range []uint64{p.addr, p.addr + n - 1} {
				if _, err := c.read(at, 1); err != nil {
					return dst, src, c.fail(cuda.ErrInvalidValue, "the copy is from or to 0x%x: %w", at, err)
				}
			}
		}
	}
	return ends[0], ends[1], nil
}

// addTo adds the copy to a batch. Where one end is in memory that the device does not reach, such as
// another device's, it adds nothing, and the program must copy.
func (w *copyWork) addTo(c *call, b *cuda.Batch) (pageable bool, err error) {
	e := w.extent()
	if e.empty() {
		return false, nil
	}
	dst, src, err := w.ends(c)
	if err != nil || dst.host || src.host {
		return err == nil, err
	}
	if to, _ := w.between(c, dst, src); to != nil {
		return true, nil
	}
	for z := range e.depth {
		if err := b.Add(func(s *cuda.Stream) error { return w.x.copyPlane(s, dst, src, e, z) }); err != nil {
			return false, err
		}
	}
	return false, nil
}

// line is CUDA_MEMCPY3D of n bytes in a row.
func line(dstKind uint32, dst uint64, srcKind uint32, src, n uint64) []byte {
	b := make([]byte, copy3DBytes)
	for _, end := range []struct {
		l    endLayout
		kind uint32
		addr uint64
	}{{l: copy3DDst, kind: dstKind, addr: dst}, {l: copy3DSrc, kind: srcKind, addr: src}} {
		binary.LittleEndian.PutUint32(b[end.l.kind:], end.kind)
		at := end.l.device
		switch end.kind {
		case memoryHost:
			at = end.l.host
		case memoryArray:
			at = end.l.array
		}
		binary.LittleEndian.PutUint64(b[at:], end.addr)
	}
	for i, v := range []uint64{n, 1, 1} {
		binary.LittleEndian.PutUint64(b[176+8*i:], v)
	}
	return b
}

// asCopy3D turns CUDA_MEMCPY2D into CUDA_MEMCPY3D.
func asCopy3D(b []byte) []byte {
	to := make([]byte, copy3DBytes)
	for _, end := range [][2]endLayout{{copy2DSrc, copy3DSrc}, {copy2DDst, copy3DDst}} {
		for _, at := range [][2]int{
			{end[0].x, end[1].x}, {end[0].y, end[1].y}, {end[0].kind, end[1].kind}, {end[0].host, end[1].host},
			{end[0].device, end[1].device}, {end[0].array, end[1].array}, {end[0].pitch, end[1].pitch},
		} {
			copy(to[at[1]:at[1]+8], b[at[0]:at[0]+8])
		}
	}
	copy(to[176:], b[112:128])
	to[192] = 1
	return to
}

// readFill reads CUDA_MEMSET_NODE_PARAMS.
func (c *call) readFill(addr uint64, x *context) (*fillWork, error) {
	b, err := c.read(addr, fillNodeBytes)
	if err != nil {
		return nil, err
	}
	return c.fillWork(&fillWork{x: x, dst: le64(b), pitch: le64(b[8:]), value: le32(b[16:]), element: le32(b[20:]), width: le64(b[24:]), height: le64(b[32:])})
}

// fillWork checks a fill.
func (c *call) fillWork(w *fillWork) (*fillWork, error) {
	if w.element != 1 && w.element != 2 && w.element != 4 {
		return nil, c.fail(cuda.ErrInvalidValue, "elements of %d bytes", w.element)
	}
	w.x = c.ownerOf(w.x, device(w.dst))
	return w, w.add(c, w.x.NewBatch())
}

func (w *fillWork) add(c *call, b *cuda.Batch) error {
	p := cuda.DevicePtr(c.pin(w.x, host(w.dst), 1).addr)
	return b.Add(func(s *cuda.Stream) error {
		switch w.element {
		case 1:
			return w.x.MemsetD2D8Async(p, w.pitch, byte(w.value), w.width, w.height, s)
		case 2:
			return w.x.MemsetD2D16Async(p, w.pitch, uint16(w.value), w.width, w.height, s)
		}
		return w.x.MemsetD2D32Async(p, w.pitch, w.value, w.width, w.height, s)
	})
}

// bytes is CUDA_MEMSET_NODE_PARAMS of version 2.
func (w *fillWork) bytes() []byte {
	b := wordBytes([]uint64{w.dst, w.pitch, uint64(w.value) | uint64(w.element)<<32, w.width, w.height})
	return append(b, wordBytes([]uint64{w.x.handle})...)
}

func (c *call) readHost(addr uint64) (*hostWork, error) {
	b, err := c.read(addr, 16)
	if err != nil {
		return nil, err
	}
	if le64(b) == 0 {
		return nil, c.fail(cuda.ErrInvalidValue, "the function is a null pointer")
	}
	return &hostWork{fn: le64(b), data: le64(b[8:])}, nil
}

func (c *call) eventWork(handle uint64) (*eventWork, error) {
	e, err := c.of(handle).event(0)
	if err != nil {
		return nil, err
	}
	return &eventWork{e: e, handle: handle}, nil
}

// contextOr finds the context of a handle, or the current one for 0.
func (c *call) contextOr(handle uint64) (*context, error) {
	if handle == 0 {
		return c.current()
	}
	return c.of(handle).context(0)
}

// Layout of CUgraphNodeParams: the kind, and behind it what the kind says.
const (
	nodeParamsBytes = 256
	nodeParamsUnion = 16
)

// readWork reads CUgraphNodeParams. Of a child it returns the graph.
func (c *call) readWork(addr uint64) (kind graph.Kind, work any, child *graph.Graph, err error) {
	b, err := c.read(addr, nodeParamsBytes)
	if err != nil {
		return 0, nil, nil, err
	}
	kind, addr = graph.Kind(le32(b)), addr+nodeParamsUnion
	b = b[nodeParamsUnion:]
	switch kind {
	case graph.Kernel:
		work, err = c.readKernel(addr, kernelNodeBytesV2)
	case graph.Copy: // flags, padding, context, CUDA_MEMCPY3D
		var x *context
		if x, err = c.contextOr(le64(b[8:])); err == nil {
			work, err = c.readCopy(addr+16, x)
		}
	case graph.Fill:
		var x *context
		if x, err = c.contextOr(le64(b[fillNodeBytes:])); err == nil {
			work, err = c.readFill(addr, x)
		}
	case graph.Host:
		work, err = c.readHost(addr)
	case graph.MemOps:
		work, err = c.readMemOps(addr)
	case graph.Child:
		if child, err = c.graphAt(le64(b)); err == nil {
			err = c.plain(child, "it cannot be a child")
		}
	case graph.Wait, graph.Record:
		work, err = c.eventWork(le64(b))
	case graph.Empty:
	default:
		err = c.fail(cuda.ErrNotSupported, "nodes of type %d", kind)
	}
	return kind, work, child, err
}

package gloop

import (
	"fmt"
	"slices"

	"pvdrm/frontend/cuda"
)

const (
	hybridKeys    = 16 << 10 // with size 1
	hybridThreads = 128
	hybridPerKey  = 256                // keys of a bucket, about
	hybridPiece   = 16 * hybridThreads // HYBRID_EACH of device/hybridsort.h
)

// hybridArgs is Hybrid of device/hybridsort.h.
type hybridArgs struct {
	Keys, Sorted           uint64
	Count, Buckets         uint32
	Low, Scale             float32
	Sizes, Starts, Cursors uint64
}

// hybrid is a sort that is prepared.
type hybrid struct {
	*job
	*hybridInput
	m       []cuda.DevicePtr // keys, sorted, sizes, starts, cursors
	args    []byte
	buckets int
	pieces  int
}

// hybridInput is keys, the same as bytes, and sorted.
type hybridInput struct {
	keys, sorted []float32
	bytes        []byte
}

func makeHybridInput(n int) hybridInput {
	in := hybridInput{keys: make([]float32, n)}
	r := newRandom(61)
	for i := range in.keys {
		in.keys[i] = 1000*r.unit() + 100*r.unit() - 50 // the ends are thinner
	}
	in.bytes, in.sorted = bytesOf(in.keys), slices.Clone(in.keys)
	slices.Sort(in.sorted)
	return in
}

var hybridInputs memo[hybridInput]

func prepareHybrid(j *job) (task, error) {
	n := hybridKeys * j.Size
	h := &hybrid{job: j, hybridInput: hybridInputs.get(n, func() hybridInput { return makeHybridInput(n) })}
	h.buckets = 1
	for h.buckets < 1024 && h.buckets*hybridPerKey < len(h.keys) {
		h.buckets *= 2
	}
	h.pieces = (len(h.keys) + hybridPiece - 1) / hybridPiece
	var err error
	if h.m, err = j.uploads(h.bytes, 4*len(h.keys), 4*h.buckets, 4*h.buckets+4, 4*h.buckets); err != nil {
		return task{}, err
	}
	low, high := h.sorted[0], h.sorted[len(h.keys)-1]
	h.args = bytesOf(hybridArgs{Keys: uint64(h.m[0]), Sorted: uint64(h.m[1]), Count: uint32(len(h.keys)), Buckets: uint32(h.buckets),
		Low: low, Scale: float32(h.buckets) / (high - low), Sizes: uint64(h.m[2]), Starts: uint64(h.m[3]), Cursors: uint64(h.m[4])})
	return task{work: h.work, check: h.check}, h.ready(h.loops()...)
}

func (h *hybrid) work() error {
	if err := h.write(h.m[0], h.bytes); err != nil {
		return err
	}
	if err := h.clear(h.m[2], 0, 4*h.buckets); err != nil {
		return err
	}
	switch {
	case h.Version.loops():
		return h.looped()
	case h.Version == Split:
		return h.split()
	}
	for _, k := range []struct {
		kernel string
		blocks int
	}{{"hybrid_count", h.pieces}, {"hybrid_places", 1}, {"hybrid_scatter", h.pieces}, {"hybrid_sort", h.buckets}} {
		if err := h.launch(k.kernel, k.blocks, hybridThreads, h.args); err != nil {
			return err
		}
	}
	return h.sync()
}

// looped runs four kernels on the event loop, whose logical blocks are pieces of the keys, and
// buckets.
func (h *hybrid) looped() error {
	for _, l := range h.loops() {
		if err := h.loop(l, h.args); err != nil {
			return err
		}
	}
	return nil
}

func (h *hybrid) loops() []loopLaunch {
	return []loopLaunch{{kernel: "hybrid_count", logical: h.pieces, threads: hybridThreads}, {kernel: "hybrid_places", logical: 1, threads: hybridThreads},
		{kernel: "hybrid_scatter", logical: h.pieces, threads: hybridThreads}, {kernel: "hybrid_sort", logical: h.buckets, threads: hybridThreads}}
}

// split launches a kernel for each pass of the merge.
func (h *hybrid) split() error {
	for _, k := range []string{"hybrid_count", "hybrid_places", "hybrid_scatter"} {
		blocks := h.pieces
		if k == "hybrid_places" {
			blocks = 1
		}
		if err := h.step(k, blocks, hybridThreads, h.args); err != nil {
			return err
		}
	}
	sizes := make([]uint32, h.buckets)
	if err := h.read(sizes, h.m[2]); err != nil {
		return err
	}
	largest := slices.Max(sizes)
	even := uint32(1)
	for width := uint32(1); width < 2*largest; width *= 2 { // the last one copies
		if err := h.step("hybrid_pass", h.buckets, hybridThreads, h.args, width, even); err != nil {
			return err
		}
		even = 1 - even
	}
	return nil
}

func (h *hybrid) check() error {
	got := make([]float32, len(h.keys))
	if err := h.read(got, h.m[1]); err != nil {
		return err
	}
	for i, x := range got {
		if x != h.sorted[i] {
			return fmt.Errorf("key %d is %g instead of %g", i, x, h.sorted[i])
		}
	}
	return nil
}

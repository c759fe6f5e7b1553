package suite

import (
	"fmt"
	"math"

	"pvdrm/frontend/cuda"
)

var bpBench = Bench{
	Name:        "bp",
	Description: "back propagation: one training step of a neural network",
	Input:       "65,536 inputs, 16 hidden units, 1 output",
	Run:         runBP,
}

// The sizes of bp.cl.
const (
	bpInputs  = 65536
	bpHidden  = 16
	bpSlices  = 64
	bpChunk   = bpSlices * 8 // inputs that one block of bp_forward adds up
	bpThreads = bpSlices * bpHidden / 4
)

const (
	bpTarget   = 0.1
	bpRate     = 0.3
	bpMomentum = 0.3
)

// network holds the weights from inputs (and bias, last) to hidden units and from
// those (and bias, last) to the output, with the last change of each weight.
type network struct {
	weight, delta       []float32 // rows of bpHidden, one for each input
	outWeight, outDelta []float32
}

// randomNetwork has weights that leave the sigmoid steep: of 2^16 inputs in
// [0, 1) times weights within 2^-8 the sum is a few units at most. Of more inputs
// it grows with the square root of their number, by which the weights shrink.
func randomNetwork(r *random, inputs int) network {
	uniform := func(n int, limit float32) []float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = (2*r.unit() - 1) * limit
		}
		return s
	}
	rows := inputs + 1
	shrink := float32(math.Sqrt(max(float64(inputs)/bpInputs, 1)))
	return network{
		weight:    uniform(rows*bpHidden, 1.0/256/shrink),
		delta:     uniform(rows*bpHidden, 1.0/1024),
		outWeight: uniform(bpHidden+1, 1),
		outDelta:  uniform(bpHidden+1, 1.0/1024),
	}
}

// trained is what one step of training makes of a network.
type trained struct {
	active              []float64 // activations of the hidden units
	output              float64
	weight, delta       []float64
	outWeight, outDelta []float64
}

// train does one step in double precision, unit by unit as the method is
// usually written down. The last input is the bias, 1.
func (n network) train(in []float32) trained {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	t := trained{
		active:    make([]float64, bpHidden),
		weight:    make([]float64, len(n.weight)),
		delta:     make([]float64, len(n.delta)),
		outWeight: make([]float64, bpHidden+1),
		outDelta:  make([]float64, bpHidden+1),
	}
	sums := make([]float64, bpHidden)
	for i, x := range in {
		for j := range sums {
			sums[j] += float64(x) * float64(n.weight[i*bpHidden+j])
		}
	}
	out := float64(n.outWeight[bpHidden])
	for j, s := range sums {
		t.active[j] = sigmoid(s)
		out += t.active[j] * float64(n.outWeight[j])
	}
	t.output = sigmoid(out)
	outError := t.output * (1 - t.output) * (bpTarget - t.output)

	change := func(delta float32, err, x float64) float64 { return bpRate*err*x + bpMomentum*float64(delta) }
	for j, h := range append(t.active[:bpHidden:bpHidden], 1) {
		t.outDelta[j] = change(n.outDelta[j], outError, h)
		t.outWeight[j] = float64(n.outWeight[j]) + t.outDelta[j]
	}
	errs := make([]float64, bpHidden)
	for j, h := range t.active {
		errs[j] = h * (1 - h) * outError * float64(n.outWeight[j])
	}
	for i, x := range in {
		for j, err := range errs {
			k := i*bpHidden + j
			t.delta[k] = change(n.delta[k], err, float64(x))
			t.weight[k] = float64(n.weight[k]) + t.delta[k]
		}
	}
	return t
}

func runBP(e *Env) error {
	r := newRandom(12)
	inputs := bpInputs * e.scale
	parts := inputs / bpChunk
	in := make([]float32, inputs+1)
	for i := range in {
		in[i] = r.unit()
	}
	in[inputs] = 1
	net := randomNetwork(r, inputs)
	rows := len(in)

	got := network{
		weight: make([]float32, len(net.weight)), delta: make([]float32, len(net.delta)),
		outWeight: make([]float32, bpHidden+1), outDelta: make([]float32, bpHidden+1),
	}
	state := make([]float32, 2*bpHidden+2) // activations and errors of the hidden units, then of the output

	s := e.begin("bp", 4*len(in), 4*len(net.weight), 4*len(net.delta),
		4*(bpHidden+1), 4*(bpHidden+1), 4*parts*bpHidden, 4*len(state))
	dIn, weight, delta, outWeight, outDelta, partial, dState :=
		s.mem[0], s.mem[1], s.mem[2], s.mem[3], s.mem[4], s.mem[5], s.mem[6]
	s.htod(dIn, bytesOf(in))
	s.htod(weight, bytesOf(net.weight))
	s.htod(delta, bytesOf(net.delta))
	s.htod(outWeight, bytesOf(net.outWeight))
	s.htod(outDelta, bytesOf(net.outDelta))

	bias := weight + cuda.DevicePtr(4*inputs*bpHidden)
	hiddenErrors := dState + 4*bpHidden
	s.launch("bp_forward", dim{uint32(parts), 1}, dim{bpThreads, 1}, dIn, weight, partial)
	s.launch("bp_hidden", dim{1, 1}, dim{bpHidden, 1}, partial, uint32(parts), bias,
		outWeight, outDelta, dState, float32(bpTarget), float32(bpRate), float32(bpMomentum))
	s.launch("bp_adjust", dim{uint32(rows*bpHidden/4+255) / 256, 1}, dim{256, 1},
		dIn, weight, delta, hiddenErrors, uint32(rows), float32(bpRate), float32(bpMomentum))
	s.sync()

	s.dtoh(bytesOf(got.weight), weight)
	s.dtoh(bytesOf(got.delta), delta)
	s.dtoh(bytesOf(got.outWeight), outWeight)
	s.dtoh(bytesOf(got.outDelta), outDelta)
	s.dtoh(bytesOf(state), dState)
	if err := s.end(); err != nil {
		return err
	}
	return checkBP(got, state, net.train(in), math.Sqrt(float64(e.scale)))
}

// Tolerances, absolute. With u = 2^-24, a hidden unit's sum has at most 64 in
// total magnitude (65,537 products of [0, 1) and 2^-8, on average a quarter of
// that) and goes through about 8 + 6 + 128 additions, each off by at most u times
// what was summed up so far: 64 * 142 * u = 5e-4 at the very worst, and the
// sigmoid's slope is at most 1/4. Signs alternate, so that partial sums stay below
// 4 and the error below 4 * 142 * u = 4e-5, a fourth of it after the sigmoid.
// Leaving out the inputs of one thread changes a sum by about 3e-3. A weight
// changes by rate * error * input, where an activation's error of 1e-5 comes in
// times less than 0.1; the rounding of weights up to 2^-8 is 2^-33, and of those
// up to 1, 2^-25. With more inputs there are more additions, whose errors add up as
// a random walk: tolerances grow with the square root of the scale.
const (
	bpActivationTolerance = 1e-5
	bpWeightTolerance     = 2e-7
	bpOutWeightTolerance  = 1e-5
)

func checkBP(got network, state []float32, want trained, allow float64) error {
	for _, c := range []struct {
		what      string
		got       []float32
		want      []float64
		tolerance float64
	}{
		{what: "activation", got: state[:bpHidden], want: want.active, tolerance: bpActivationTolerance},
		{what: "output", got: state[2*bpHidden : 2*bpHidden+1], want: []float64{want.output}, tolerance: bpActivationTolerance},
		{what: "output weight", got: got.outWeight, want: want.outWeight, tolerance: bpOutWeightTolerance},
		{what: "change of output weight", got: got.outDelta, want: want.outDelta, tolerance: bpOutWeightTolerance},
		{what: "weight", got: got.weight, want: want.weight, tolerance: bpWeightTolerance},
		{what: "change of weight", got: got.delta, want: want.delta, tolerance: bpWeightTolerance},
	} {
		if err := checkClose(c.what, c.got, c.want, allow*c.tolerance); err != nil {
			return fmt.Errorf("trained network: %w", err)
		}
	}
	return nil
}

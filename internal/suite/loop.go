package suite

var loopBench = Bench{
	Name:        "loop",
	Description: "a long loop on the GPU, without data",
	Input:       "4 KiB in and out, 262,144 rounds",
	Run:         runLoop,
}

const (
	loopWords  = 1024
	loopBlock  = 128
	loopRounds = 1 << 18
)

// affine is the function x -> mul*x + add, modulo 2^32.
type affine struct{ mul, add uint32 }

func (f affine) apply(x uint32) uint32 { return f.mul*x + f.add }

// after is x -> f(g(x)).
func (f affine) after(g affine) affine { return affine{f.mul * g.mul, f.mul*g.add + f.add} }

// power is f applied n times, which takes log n steps: the reference does not
// repeat the kernel's loop.
func (f affine) power(n uint) affine {
	result := affine{mul: 1}
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = f.after(result)
		}
		f = f.after(f)
	}
	return result
}

func runLoop(e *Env) error {
	rounds := loopRounds * e.scale
	round := affine{mul: 1664525, add: 1013904223}
	in := newRandom(1).words(loopWords)
	got := make([]int32, loopWords)

	s := e.begin("loop", 4*loopWords)
	s.htod(s.mem[0], bytesOf(in))
	s.launch("loop", dim{loopWords / loopBlock, 1}, dim{loopBlock, 1},
		s.mem[0], round.mul, round.add, uint32(rounds))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[0])
	if err := s.end(); err != nil {
		return err
	}

	all := round.power(uint(rounds))
	want := make([]int32, loopWords)
	for i, x := range in {
		want[i] = int32(all.apply(uint32(x)))
	}
	return checkEqual("x", got, want)
}

package gloop

// random makes the inputs: a xorshift generator, which is the same everywhere.
type random uint64

func newRandom(seed uint64) *random {
	r := random(seed*0x9e3779b97f4a7c15 | 1)
	return &r
}

// bits returns 32 random bits.
func (r *random) bits() uint32 {
	x := uint64(*r)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*r = random(x)
	return uint32(x * 0x2545f4914f6cdd1d >> 32)
}

// below returns a number in [0, n).
func (r *random) below(n int) int { return int(uint64(r.bits()) * uint64(n) >> 32) }

// unit returns a number in [0, 1).
func (r *random) unit() float32 { return float32(r.bits()>>8) / (1 << 24) }

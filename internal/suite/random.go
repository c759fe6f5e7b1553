package suite

// random is the source of the pseudo-random inputs: a Weyl sequence put through
// a mixing function (SplitMix64). It is the same on every machine, needs no
// floating point and takes about a nanosecond a number, since inputs are large
// and a guest's CPU may be emulated.
type random struct{ state uint64 }

// newRandom starts a sequence; different seeds give unrelated ones.
func newRandom(seed uint64) *random { return &random{state: seed * 0xd1342543de82ef95} }

// next returns 64 random bits.
func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n).
func (r *random) below(n uint32) uint32 { return uint32(r.next() >> 32 * uint64(n) >> 32) }

// between returns a number in [lo, hi].
func (r *random) between(lo, hi int32) int32 { return lo + int32(r.below(uint32(hi-lo)+1)) }

// unit returns a multiple of 2^-24 in [0, 1).
func (r *random) unit() float32 { return float32(r.next()>>40) / (1 << 24) }

// words returns n numbers of all 32 bits.
func (r *random) words(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(r.next() >> 32)
	}
	return s
}

package suite

// Extra returns the programs that Gdev's suite lacks: one well-known kernel or algorithm each, for
// the comparison of a GPU with C code and with OpenCL on the host's processors. Their inputs are
// always the same.
func Extra() []Bench {
	return []Bench{
		reductionBench, scanBench, histogramBench, spmvBench,
		sortBench, bitonicBench,
		conv2dBench, sobelBench, transposeBench,
		fftBench, nbodyBench,
		blackScholesBench, binomialBench,
		attentionBench, layernormBench, softmaxBench,
		sha256Bench, hmmulBench,
	}
}

// extraBlock is how many threads a block of the extra programs has, where they are in a row.
const extraBlock = 256

// over is a grid whose blocks of extraBlock threads have n threads together.
func over(n int) dim { return dim{uint32((n + extraBlock - 1) / extraBlock), 1} }

// inRow is the block of a grid made by over.
var inRow = dim{extraBlock, 1}

// smallInts returns n whole numbers from lo to hi, of which sums and products come out exactly.
func smallInts(r *random, n int, lo, hi int32) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(r.between(lo, hi))
	}
	return s
}

// unitFloats returns n numbers in [lo, lo + span).
func unitFloats(r *random, n int, lo, span float32) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = lo + span*r.unit()
	}
	return s
}

// uints returns n numbers of all 32 bits.
func uints(r *random, n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = uint32(r.next() >> 32)
	}
	return s
}

package suite

var (
	reductionBench = Bench{
		Name: "reduction", Description: "the sum of an array", Input: "4,194,304 numbers", Fixed: true,
		Run: runReduction,
	}
	scanBench = Bench{
		Name: "scan", Description: "prefix sums", Input: "4,194,304 integers", Fixed: true,
		Run: runScan,
	}
	histogramBench = Bench{
		Name: "histogram", Description: "how often each byte occurs", Input: "16,777,216 bytes", Fixed: true,
		Run: runHistogram,
	}
	spmvBench = Bench{
		Name: "spmv", Description: "a sparse matrix times a vector", Input: "131,072 rows of 0 to 32 elements", Fixed: true,
		Run: runSpMV,
	}
)

// sumLength is the number of elements of reduction and scan.
const sumLength = 1 << 22

func runReduction(e *Env) error {
	const parts = 256
	in := smallInts(newRandom(21), sumLength, 0, 3) // the sum is below 2^24, and exact in any order
	want := float32(0)
	for _, x := range in {
		want += x
	}
	got := make([]float32, 1)

	s := e.begin("reduction", 4*sumLength, 4*parts, 4)
	s.htod(s.mem[0], bytesOf(in))
	s.launch("reduction", dim{parts, 1}, inRow, s.mem[0], s.mem[1], uint32(sumLength))
	s.launch("reduction", dim{1, 1}, inRow, s.mem[1], s.mem[2], uint32(parts))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[2])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("sum", got, []float32{want})
}

func runScan(e *Env) error {
	const blocks = sumLength / (4 * extraBlock)
	in := uints(newRandom(22), sumLength)
	want, sum := make([]uint32, sumLength), uint32(0)
	for i, x := range in {
		sum += x
		want[i] = sum
	}
	got := make([]uint32, sumLength)

	s := e.begin("scan", 4*sumLength, 4*sumLength, 4*blocks)
	s.htod(s.mem[0], bytesOf(in))
	s.launch("scan_blocks", dim{blocks, 1}, inRow, s.mem[0], s.mem[1], s.mem[2])
	s.launch("scan_sums", dim{1, 1}, inRow, s.mem[2], uint32(blocks))
	s.launch("scan_add", dim{blocks, 1}, inRow, s.mem[1], s.mem[2])
	s.sync()
	s.dtoh(bytesOf(got), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("sums", got, want)
}

func runHistogram(e *Env) error {
	const bytes, blocks = 1 << 24, 64
	in := uints(newRandom(23), bytes/4)
	for i := range in {
		in[i] &= in[i] >> 1 // some bytes are more frequent than others
	}
	want := make([]uint32, 256)
	for _, x := range in {
		for shift := 0; shift < 32; shift += 8 {
			want[x>>shift&255]++
		}
	}
	got := make([]uint32, 256)

	s := e.begin("histogram", bytes, 4*256)
	s.htod(s.mem[0], bytesOf(in))
	s.fill(s.mem[1], 0, 256)
	s.launch("histogram", dim{blocks, 1}, inRow, s.mem[0], s.mem[1], uint32(bytes/4))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("bins", got, want)
}

func runSpMV(e *Env) error {
	const rows = 1 << 17
	r := newRandom(24)
	first, column := make([]uint32, rows+1), []uint32{}
	for i := range rows {
		for range r.below(33) {
			column = append(column, r.below(rows))
		}
		first[i+1] = uint32(len(column))
	}
	value, x := smallInts(r, len(column), -8, 8), smallInts(r, rows, -8, 8)
	want, got := make([]float32, rows), make([]float32, rows)
	for i := range want {
		for k := first[i]; k < first[i+1]; k++ {
			want[i] += value[k] * x[column[k]]
		}
	}
	s := e.begin("spmv", 4*len(first), 4*len(column), 4*len(value), 4*rows, 4*rows)
	for i, b := range [][]byte{bytesOf(first), bytesOf(column), bytesOf(value), bytesOf(x)} {
		s.htod(s.mem[i], b)
	}
	s.launch("spmv", over(rows), inRow, s.mem[0], s.mem[1], s.mem[2], s.mem[3], s.mem[4], uint32(rows))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[4])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("y", got, want)
}

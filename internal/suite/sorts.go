package suite

import "slices"

var (
	sortBench = Bench{
		Name: "sort", Description: "a radix sort", Input: "1,048,576 keys of 32 bits", Fixed: true,
		Run: runSort,
	}
	bitonicBench = Bench{
		Name: "bitonic", Description: "a bitonic sort", Input: "262,144 keys of 32 bits", Fixed: true,
		Run: runBitonic,
	}
)

func runSort(e *Env) error {
	const (
		count  = 1 << 20
		digits = 16
		blocks = count / (4 * extraBlock)
	)
	keys := uints(newRandom(25), count)
	want, got := slices.Sorted(slices.Values(keys)), make([]uint32, count)

	s := e.begin("sort", 4*count, 4*count, 4*digits*blocks)
	s.htod(s.mem[0], bytesOf(keys))
	from, to := s.mem[0], s.mem[1]
	for shift := uint32(0); shift < 32; shift += 4 {
		s.launch("sort_count", dim{blocks, 1}, inRow, from, s.mem[2], shift)
		s.launch("sort_scan", dim{1, 1}, inRow, s.mem[2], uint32(digits*blocks))
		s.launch("sort_scatter", dim{blocks, 1}, inRow, from, to, s.mem[2], shift)
		from, to = to, from
	}
	s.sync()
	s.dtoh(bytesOf(got), from)
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("keys", got, want)
}

func runBitonic(e *Env) error {
	const (
		count = 1 << 18
		tile  = 2 * extraBlock
	)
	keys := uints(newRandom(26), count)
	want, got := slices.Sorted(slices.Values(keys)), make([]uint32, count)

	s := e.begin("bitonic", 4*count)
	s.htod(s.mem[0], bytesOf(keys))
	s.launch("bitonic_tile", dim{count / tile, 1}, inRow, s.mem[0], uint32(2), uint32(tile))
	for length := uint32(2 * tile); length <= count; length *= 2 {
		for reach := length / 2; reach >= tile; reach /= 2 {
			s.launch("bitonic_step", over(count/2), inRow, s.mem[0], reach, length)
		}
		s.launch("bitonic_tile", dim{count / tile, 1}, inRow, s.mem[0], length, length)
	}
	s.sync()
	s.dtoh(bytesOf(got), s.mem[0])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("keys", got, want)
}

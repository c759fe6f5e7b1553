package suite

var longMaddBench = Bench{
	Name:        "long-madd",
	Description: "madd with 15 times the calculation, for measuring fairness",
	Input:       "1024 x 1024, 15 rounds",
	Run:         runLongMadd,
}

const longRounds = 15

func runLongMadd(e *Env) error {
	a, b := randomInts(newRandom(2)), randomInts(newRandom(3))
	got := make([]int32, matrixElems)

	s := e.begin("longmadd", matrixBytes, matrixBytes, matrixBytes)
	s.htod(s.mem[0], bytesOf(a))
	s.htod(s.mem[1], bytesOf(b))
	s.launch("longmadd", rowsGrid, rowsBlock, s.mem[0], s.mem[1], s.mem[2],
		uint32(matrixVecs), uint32(matrixSide-1), uint32(longRounds))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[2])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("c", got, slidingSums(a, b, matrixSide, longRounds))
}

// slidingSums is the matrix whose row y is the sum of the rows y to y+rounds-1 of
// a + b, which has side rows and wraps around. Each row comes from the one before
// it, by the row that enters the window and the one that leaves it.
func slidingSums(a, b []int32, side, rounds int) []int32 {
	sums := make([]int32, len(a))
	first := sums[:side]
	for r := range rounds {
		for x := range first {
			first[x] += a[r*side+x] + b[r*side+x]
		}
	}
	for y := 1; y < side; y++ {
		enters := (y + rounds - 1) % side * side
		leaves := (y - 1) * side
		for x := range side {
			sums[y*side+x] = sums[leaves+x] + a[enters+x] + b[enters+x] - a[leaves+x] - b[leaves+x]
		}
	}
	return sums
}

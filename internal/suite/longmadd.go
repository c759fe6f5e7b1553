package suite

var longMaddBench = Bench{
	Name:        "long-madd",
	Description: "madd with 15 times the calculation, for measuring fairness",
	Input:       "1024 x 1024, 15 rounds",
	Run:         runLongMadd,
}

const longRounds = 15

func runLongMadd(e *Env) error {
	rows := matrixSide * e.scale
	elems, size := matrixSide*rows, 4*matrixSide*rows
	a, b := randomInts(newRandom(2), elems), randomInts(newRandom(3), elems)
	got := make([]int32, elems)

	s := e.begin("longmadd", size, size, size)
	s.htod(s.mem[0], bytesOf(a))
	s.htod(s.mem[1], bytesOf(b))
	s.launch("longmadd", gridOf(rows), rowsBlock, s.mem[0], s.mem[1], s.mem[2],
		uint32(matrixVecs), uint32(rows-1), uint32(longRounds))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[2])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("c", got, slidingSums(a, b, rows, matrixSide, longRounds))
}

// slidingSums is the matrix whose row y is the sum of the rows y to y+rounds-1 of
// a + b, which is rows x cols and wraps around. Each row comes from the one before
// it, by the row that enters the window and the one that leaves it.
func slidingSums(a, b []int32, rows, cols, rounds int) []int32 {
	sums := make([]int32, len(a))
	first := sums[:cols]
	for r := range rounds {
		for x := range first {
			first[x] += a[r*cols+x] + b[r*cols+x]
		}
	}
	for y := 1; y < rows; y++ {
		enters := (y + rounds - 1) % rows * cols
		leaves := (y - 1) * cols
		for x := range cols {
			sums[y*cols+x] = sums[leaves+x] + a[enters+x] + b[enters+x] - a[leaves+x] - b[leaves+x]
		}
	}
	return sums
}

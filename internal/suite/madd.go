package suite

import "fmt"

var maddBench = Bench{
	Name:        "madd",
	Description: "addition of integer matrices",
	Input:       "1024 x 1024",
	Run:         func(e *Env) error { return runAdd(e, "madd", randomInts) },
}

var fmaddBench = Bench{
	Name:        "fmadd",
	Description: "addition of 32-bit floating-point matrices",
	Input:       "1024 x 1024",
	Run:         func(e *Env) error { return runAdd(e, "fmadd", randomFloats) },
}

const (
	matrixSide  = 1024 // rows and columns
	matrixElems = matrixSide * matrixSide
	matrixVecs  = matrixSide / 4 // vectors of four in a row
	matrixBytes = 4 * matrixElems
)

// Of the kernels in which a thread makes one vector of four.
var (
	rowsBlock = dim{32, 8}
	rowsGrid  = gridOf(matrixSide)
)

// gridOf is the grid for a matrix of so many rows.
func gridOf(rows int) dim { return dim{matrixVecs / rowsBlock.x, uint32(rows) / rowsBlock.y} }

func randomInts(r *random, n int) []int32 { return r.words(n) }

// randomFloats are of both signs and of magnitudes from 2^-8 to 1, so that most sums round.
func randomFloats(r *random, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = (r.unit() - 0.5) / float32(int(1)<<r.below(8))
	}
	return s
}

// runAdd runs madd or fmadd. Floating-point sums are compared for equality too:
// one IEEE addition, rounded to nearest, has one right result.
func runAdd[T int32 | float32](e *Env, kernel string, make32 func(r *random, n int) []T) error {
	rows := matrixSide * e.scale
	elems, size := matrixSide*rows, 4*matrixSide*rows
	a, b := make32(newRandom(2), elems), make32(newRandom(3), elems)
	got := make([]T, elems)

	s := e.begin(kernel, size, size, size)
	s.htod(s.mem[0], bytesOf(a))
	s.htod(s.mem[1], bytesOf(b))
	s.launch(kernel, gridOf(rows), rowsBlock, s.mem[0], s.mem[1], s.mem[2], uint32(matrixVecs))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[2])
	if err := s.end(); err != nil {
		return err
	}

	for i := range got {
		if want := a[i] + b[i]; got[i] != want {
			return fmt.Errorf("c[%d][%d] is %v, want %v", i/matrixSide, i%matrixSide, got[i], want)
		}
	}
	return nil
}

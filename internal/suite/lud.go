package suite

import "fmt"

var ludBench = Bench{
	Name:        "lud",
	Description: "LU decomposition",
	Input:       "512 x 512",
	Run:         runLUD,
}

const (
	ludSide  = 512
	ludTile  = 32
	ludLimit = 3 // largest element of the factors
	ludDense = 64
)

// plantFactors returns a matrix and its factors, which are made first: lower
// has ones on its diagonal, both are packed into one matrix as the kernels do it.
//
// A decomposition with ones on the lower diagonal is unique, so the kernels must
// find these factors. And they must find them exactly: the elements are small
// integers, all sums on the way are sums of a part of the products that make up
// an element, at most n * 3 * 3 in magnitude, far below 2^24, and the quotients
// are integers. No rounding can take place, whatever the order.
//
// Beyond ludSide rows the lower factor has about ludDense elements in each row that
// are not 0, as multiplying dense factors would take longer than all the rest.
func plantFactors(r *random, n int) (matrix []float32, factors []float32) {
	packed := make([]int32, n*n)
	for i := range packed {
		packed[i] = r.between(-ludLimit, ludLimit)
	}
	for i := range n {
		if packed[i*n+i] == 0 {
			packed[i*n+i] = 1 // the upper factor's diagonal: a divisor
		}
		for k := 0; n > ludSide && k < i; k++ {
			if r.below(uint32(n/ludDense)) != 0 {
				packed[i*n+k] = 0
			}
		}
	}

	product := make([]int32, n*n)
	for i := range n {
		row := product[i*n : (i+1)*n]
		for k := range i {
			l := packed[i*n+k]
			if l == 0 {
				continue
			}
			upper := packed[k*n : (k+1)*n]
			for j := k; j < n; j++ {
				row[j] += l * upper[j]
			}
		}
		for j := i; j < n; j++ {
			row[j] += packed[i*n+j]
		}
	}
	return scaled(product, 1), scaled(packed, 1)
}

func runLUD(e *Env) error {
	n := e.side(ludSide)
	matrix, want := plantFactors(newRandom(14), n)
	got := make([]float32, len(matrix))

	s := e.begin("lud", 4*len(matrix))
	a := s.mem[0]
	s.htod(a, bytesOf(matrix))
	for at := uint32(0); at < uint32(n); at += ludTile {
		s.launch("lud_diagonal", dim{1, 1}, dim{ludTile, 1}, a, uint32(n), at)
		if left := (uint32(n)-at)/ludTile - 1; left > 0 {
			s.launch("lud_border", dim{left, 1}, dim{2 * ludTile, 1}, a, uint32(n), at)
			s.launch("lud_inner", dim{left, left}, dim{8, 8}, a, uint32(n), at)
		}
	}
	s.sync()
	s.dtoh(bytesOf(got), a)
	if err := s.end(); err != nil {
		return err
	}
	for i, w := range want {
		if got[i] != w {
			return fmt.Errorf("factors[%d][%d] is %v, want %v", i/n, i%n, got[i], w)
		}
	}
	return nil
}

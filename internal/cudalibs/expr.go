package cudalibs

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// expr is a size: a sum of products of numbers and of arguments, such as 4*$2+8. The size of an
// argument that is negative is 0.
type expr struct{ terms [][]factor }

// factor is a number, or an argument if arg is not negative, or the size of a cudaDataType there.
type factor struct {
	arg   int
	n     uint64
	typed bool
}

// dataTypes are the sizes of cudaDataType, in bytes; 0 for what has none of its own.
var dataTypes = [...]uint64{4, 8, 2, 1, 8, 16, 4, 2, 1, 2, 4, 8, 4, 8, 2, 4, 1, 1, 1, 1, 2, 4, 2, 4, 8, 16, 8, 16, 1, 1, 1, 1, 1, 1}

// MaxBuffer bounds the host memory of one argument, in bytes.
const MaxBuffer = 16 << 20

func parseExpr(s string) (e expr, err error) {
	for product := range strings.SplitSeq(s, "+") {
		var term []factor
		for word := range strings.SplitSeq(product, "*") {
			f := factor{arg: -1}
			if rest, ok := strings.CutPrefix(word, "t"); ok {
				word, f.typed = rest, true
			}
			if arg, ok := strings.CutPrefix(word, "$"); ok {
				f.arg, err = strconv.Atoi(arg)
			} else {
				f.n, err = strconv.ParseUint(word, 10, 32)
			}
			if err != nil {
				return e, fmt.Errorf("size %q: %w", s, err)
			}
			term = append(term, f)
		}
		e.terms = append(e.terms, term)
	}
	return e, nil
}

// eval computes the size from the arguments of a call of f. It is an error if it exceeds MaxBuffer.
func (e expr) eval(f *Function, args []uint64) (uint64, error) {
	sum := uint64(0)
	for _, term := range e.terms {
		product := uint64(1)
		for _, x := range term {
			v := x.value(f, args)
			high, low := bits.Mul64(product, v)
			if high != 0 {
				low = MaxBuffer + 1
			}
			product = low
			if product > MaxBuffer && !hasZero(f, term, args) {
				return 0, fmt.Errorf("%s: an array of more than %d bytes", f.Name, MaxBuffer)
			}
		}
		sum += product
	}
	if sum > MaxBuffer {
		return 0, fmt.Errorf("%s: an array of %d bytes; at most %d are possible", f.Name, sum, MaxBuffer)
	}
	return sum, nil
}

// hasZero reports whether a factor of a term is zero.
func hasZero(f *Function, term []factor, args []uint64) bool {
	for _, x := range term {
		if x.value(f, args) == 0 {
			return true
		}
	}
	return false
}

// value is what a factor is in a call.
func (x factor) value(f *Function, args []uint64) uint64 {
	if x.arg < 0 {
		return x.n
	}
	v := count(f.Params[x.arg].Class, args[x.arg])
	if !x.typed {
		return v
	}
	if v >= uint64(len(dataTypes)) {
		return 0
	}
	return dataTypes[v]
}

// count is an argument as a number that is not negative.
func count(c Class, v uint64) uint64 {
	if c == Int32 {
		v = uint64(int64(int32(v)))
	}
	if int64(v) < 0 {
		return 0
	}
	return v
}

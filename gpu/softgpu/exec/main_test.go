package exec

import (
	"flag"
	"os"
	"testing"
)

// second is set in the second run of all tests, with AVX2.
var second bool

// TestMain runs all tests with the most that the processor has, and again with AVX2 where that is less.
// With -short it runs them once. Of the processes of a fuzzer, each second one has AVX2.
func TestMain(m *testing.M) {
	flag.Parse()
	best := InUse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		if os.Getpid()%2 != 0 {
			UseISA(AVX2)
		}
		os.Exit(m.Run())
	}
	code := m.Run()
	if best == AVX512 && code == 0 && !testing.Short() && UseISA(AVX2) {
		second = true
		code = m.Run()
	}
	os.Exit(code)
}

// eachISA runs a test on each width that the processor has, with -short on the widest only. It
// skips the test in the second run: the first has had all widths.
func eachISA(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if err := NativeCode(); err != nil {
		t.Skip(err)
	}
	if second {
		t.Skip("the first run had all widths")
	}
	best := InUse()
	defer UseISA(best)
	for _, isa := range []ISA{AVX512, AVX2, Plain} {
		if testing.Short() && isa != best {
			continue
		}
		if UseISA(isa) {
			t.Run(string(isa), test)
		}
	}
}

// sample says which cases a test runs that has many of one kind: all, with -short one in eleven. That has no factor in common
// with the number of cases of a loop, so that each of them has its turn.
type sample int

// next reports whether the next case runs.
func (s *sample) next() bool {
	*s++
	return !testing.Short() || *s%11 == 1
}

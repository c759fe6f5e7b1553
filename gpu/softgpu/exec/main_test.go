package exec

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs all tests with the most that the processor has, and again with AVX2 where that is less.
// Of the processes of a fuzzer, each second one has AVX2.
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
	if best == AVX512 && code == 0 && UseISA(AVX2) {
		code = m.Run()
	}
	os.Exit(code)
}

package suite

import (
	"fmt"

	"pvdrm/frontend/cuda"
)

// spins are the kernels that Spin can run, as their programs do: what the
// fairness experiment of the thesis (section 4.3.3) has its guests run.
var spins = map[string]func(*session){
	"madd": func(s *session) {
		s.launch("madd", rowsGrid, rowsBlock, s.mem[0], s.mem[1], s.mem[2], uint32(matrixVecs))
	},
	"long-madd": func(s *session) {
		s.launch("longmadd", rowsGrid, rowsBlock, s.mem[0], s.mem[1], s.mem[2], uint32(matrixVecs), uint32(matrixSide-1), uint32(longRounds))
	},
}

// spinDepth is how many kernels are queued at a time, so that the GPU need not
// wait for the program.
const spinDepth = 4

// Spin runs the kernel of a program again and again until stop is closed. It
// calls ready when the first has ended, and done with the number of kernels
// whenever some have ended.
func Spin(drv *cuda.Driver, name string, stop <-chan struct{}, ready func(), done func(kernels int)) error {
	launch := spins[name]
	if launch == nil {
		return fmt.Errorf("no kernel of %q runs for ever; madd and long-madd do", name)
	}
	module := map[string]string{"madd": "madd", "long-madd": "longmadd"}[name]
	e := &Env{open: func() (device, error) { return openCUDA(drv) }}
	s := e.begin(module, matrixBytes, matrixBytes, matrixBytes)
	launch(s)
	s.sync()
	if s.err == nil {
		ready()
	}
	for s.err == nil {
		select {
		case <-stop:
			return s.end()
		default:
		}
		for range spinDepth {
			launch(s)
		}
		s.sync()
		if s.err == nil {
			done(spinDepth)
		}
	}
	return s.end()
}

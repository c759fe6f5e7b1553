package suite

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"

	"pvdrm/frontend/cuda"
)

//go:embed kernels/*.ptx
var kernels embed.FS

// EachModule calls visit with the PTX modules of the programs that come with the suite, until it returns an error.
func EachModule(visit func(file string, ptx []byte) error) error {
	return fs.WalkDir(kernels, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := kernels.ReadFile(path)
		if err != nil {
			return err
		}
		return visit(path, text)
	})
}

// device is one context of a GPU, as far as the programs need it. The CUDA
// driver API is behind it (cuda.go); the tests also run the programs on a bare
// GPU device.
type device interface {
	// load loads a module; launch finds kernels in it.
	load(name string, ptx []byte) error
	alloc(n uint64) (cuda.DevicePtr, error)
	allocPinned(n uint64) (pinned, error)

	write(dst cuda.DevicePtr, src []byte) error
	read(dst []byte, src cuda.DevicePtr) error
	writePinned(dst cuda.DevicePtr, src pinned) error
	readPinned(dst pinned, src cuda.DevicePtr) error

	// fill sets n words.
	fill(p cuda.DevicePtr, word uint32, n uint64) error
	// launch queues a kernel; sync waits for all that is queued.
	launch(kernel string, grid, block dim, args ...any) error
	sync() error

	// close gives back all that was allocated, the module and the context.
	close() error
}

// pinned is host memory that the GPU reaches and the program has mapped.
type pinned interface{ Bytes() []byte }

// dim is the size of a grid in blocks or of a block in threads.
type dim struct{ x, y uint32 }

// session is the use that one run makes of the GPU. Its first error sticks: what
// follows does nothing, until end reports it. So programs read as the list of
// their steps.
type session struct {
	env    *Env
	phases *Phases
	dev    device
	mem    []cuda.DevicePtr // by index, of the sizes given to begin
	pinned []pinned         // of the sizes given to pin
	read   hash.Hash        // of what was copied from the GPU; nil if nobody asks
	err    error
}

// begin opens a context, loads the kernels of that name ("" for none) and
// allocates device memory of the sizes given, in bytes. All of it is phase init.
// The caller must call end.
func (e *Env) begin(module string, sizes ...int) *session {
	s := &session{env: e, phases: &e.phases}
	if e.scale > 1 {
		s.read = sha256.New()
	}
	s.step(&s.phases.Init, "open a context", func() (err error) {
		s.dev, err = e.open()
		return err
	})
	if module != "" {
		s.step(&s.phases.Init, "load the kernels", func() error {
			ptx, err := kernels.ReadFile("kernels/" + module + ".ptx")
			if err != nil {
				return err
			}
			return s.dev.load(module+".ptx", ptx)
		})
	}
	s.mem = make([]cuda.DevicePtr, len(sizes))
	for i, n := range sizes {
		s.step(&s.phases.Init, fmt.Sprintf("allocate %d bytes", n), func() (err error) {
			s.mem[i], err = s.dev.alloc(uint64(n))
			return err
		})
	}
	s.settle()
	return s
}

// settle uses the memory, so that all that allocating it takes is in phase init: a
// driver may do a part of it later.
func (s *session) settle() {
	if len(s.mem) == 0 {
		return
	}
	s.step(&s.phases.Init, "use the memory", func() error {
		if err := s.dev.fill(s.mem[0], 0, 1); err != nil {
			return err
		}
		return s.dev.sync()
	})
}

// pin allocates pinned host memory. It is part of phase init.
func (s *session) pin(n int) {
	s.step(&s.phases.Init, fmt.Sprintf("allocate %d bytes of pinned memory", n), func() error {
		p, err := s.dev.allocPinned(uint64(n))
		s.pinned = append(s.pinned, p)
		return err
	})
	s.settle()
}

func (s *session) htod(dst cuda.DevicePtr, src []byte) {
	s.step(&s.phases.HtoD, fmt.Sprintf("copy %d bytes to the GPU", len(src)),
		func() error {
			err := s.dev.write(dst, src)
			if err == nil && s.env.apart {
				err = s.dev.sync()
			}
			return err
		})
}

// dtoh copies to memory that the program has touched: what the kernel of the machine
// takes to make it is no work of the GPU.
func (s *session) dtoh(dst []byte, src cuda.DevicePtr) {
	const page = 4096
	for i := 0; i < len(dst); i += page {
		dst[i] = 0
	}
	s.step(&s.phases.DtoH, fmt.Sprintf("copy %d bytes from the GPU", len(dst)),
		func() error { return s.dev.read(dst, src) })
	s.note(dst)
}

func (s *session) htodPinned(dst cuda.DevicePtr, src pinned) {
	s.step(&s.phases.HtoD, "copy pinned memory to the GPU", func() error { return s.dev.writePinned(dst, src) })
}

func (s *session) dtohPinned(dst pinned, src cuda.DevicePtr) {
	s.step(&s.phases.DtoH, "copy pinned memory from the GPU", func() error { return s.dev.readPinned(dst, src) })
	if s.err == nil {
		s.note(dst.Bytes())
	}
}

// note adds what was copied from the GPU to the digest.
func (s *session) note(b []byte) {
	if s.read != nil {
		s.read.Write(b) // never fails
	}
}

// launch queues a kernel. It is part of phase launch, as are sync and the steps
// by which a program steers its kernels, fill and peek.
func (s *session) launch(kernel string, grid, block dim, args ...any) {
	s.step(&s.phases.Launch, "launch kernel "+kernel,
		func() error { return s.dev.launch(kernel, grid, block, args...) })
	s.env.underWay = s.env.ended
	s.env.launches++
}

// sync waits until all launched kernels have ended.
func (s *session) sync() {
	s.step(&s.phases.Launch, "wait for the kernels", func() error { return s.dev.sync() })
}

// fill sets n words of device memory.
func (s *session) fill(p cuda.DevicePtr, word uint32, n int) {
	s.step(&s.phases.Launch, fmt.Sprintf("fill %d words", n), func() error { return s.dev.fill(p, word, uint64(n)) })
	s.env.underWay = s.env.ended
}

// peek waits for the kernels and reads one word of device memory; 0 after an error.
func (s *session) peek(p cuda.DevicePtr) uint32 {
	word := make([]uint32, 1)
	s.step(&s.phases.Launch, "read a word", func() error { return s.dev.read(bytesOf(word), p) })
	if s.err != nil {
		return 0
	}
	return word[0]
}

// end closes the context, which is phase close, and returns the first error;
// errTrial or errKnown where there is to be no check.
func (s *session) end() error {
	if s.dev == nil {
		return s.err
	}
	err := s.env.timed(&s.phases.Close, s.dev.close)
	if s.err == nil && err != nil {
		return fmt.Errorf("close the context: %w", err)
	}
	if s.err == nil && s.read != nil {
		s.env.digest = hex.EncodeToString(s.read.Sum(nil))
	}
	switch {
	case s.err == nil && s.env.trial:
		return errTrial
	case s.err == nil && s.env.digest != "" && s.env.digest == s.env.known:
		return errKnown
	}
	return s.err // errors of closing follow from it
}

func (s *session) step(phase *float64, what string, do func() error) {
	if s.err != nil {
		return
	}
	if err := s.env.timed(phase, do); err != nil {
		s.err = fmt.Errorf("%s: %w", what, err)
	}
}

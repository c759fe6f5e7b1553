package nvidia

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Machine code for the fake driver is a header of an ELF file with its verdict at the end.
const (
	fakeCode       = 1000 // above it are the handles of kernels in machine code
	fakeCodeModule = 7000 // and of its modules
	fakeVerdict    = 63   // offset of the verdict
)

// What the fake does with machine code.
const (
	fakeCodeLoads = iota
	fakeCodeRefused
	fakeCodeCrashes
	fakeCodeHangs
)

var fakeVariables []byte

// codeOf returns fakeCode for a module of machine code, else 0.
func codeOf(m uintptr) uintptr {
	if m == fakeCodeModule {
		return fakeCode
	}
	return 0
}

func loadFakeCode(m *uintptr, image *byte) result {
	switch unsafe.Slice(image, 64)[fakeVerdict] { // the backend has checked that the header is there
	case fakeCodeRefused:
		return resultNoBinary
	case fakeCodeCrashes:
		unix.Kill(unix.Getpid(), unix.SIGKILL)
	case fakeCodeHangs:
		select {}
	}
	return set(m, fakeCodeModule)
}

// fakeVariable is where the variable of machine code lies.
func fakeVariable(uintptr) uint64 {
	if fakeVariables == nil {
		fakeVariables, _ = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	}
	return addressOf(fakeVariables)
}

// fakeAnswers makes the functions that answer questions.
func fakeAnswers(d *driver) {
	d.tensorMapTiled = func(m *tensorMap) result {
		if m.rank > 5 {
			return resultInvalidValue
		}
		m.out[0], m.out[8], m.out[16], m.out[127] = byte(m.base), byte(m.dims[0]), byte(m.strides[0]), byte(m.boxes[1])
		return resultOK
	}
	d.tensorMapIm2col = func(m *tensorMap) result {
		m.out[0], m.out[8] = byte(m.lower[0]), byte(m.pixels)
		return resultOK
	}
	d.activeClusters = func(n *int32, _ uintptr, l *launchArgs, largest bool) result {
		if largest {
			return set(n, 8)
		}
		return set(n, int32(100/l.cluster[0]))
	}
}

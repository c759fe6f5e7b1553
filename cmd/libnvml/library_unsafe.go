//go:build cgo

package main

// #include <stdint.h>
import "C"

import (
	"sync"
	"unsafe"

	"pvdrm/frontend"
	"pvdrm/frontend/nvml"
	"pvdrm/internal/progmem"
)

// library is made at the first call, when the program's environment is there.
var library = sync.OnceValue(func() *nvml.Library {
	return nvml.New(nvml.Config{Open: openers(), Memory: progmem.Own{}})
})

// openers open the devices that this process has.
func openers() (all []nvml.Opener) {
	for _, open := range frontend.BoundOpeners(true) {
		all = append(all, func() (nvml.File, error) {
			file, err := open()
			if err != nil {
				return nil, err // not a nil *frontend.File inside of an interface
			}
			return file, nil
		})
	}
	return all
}

// pvdrmNVMLStart comes before all other calls, and reports whether they may come.
//
//export pvdrmNVMLStart
func pvdrmNVMLStart(table C.uint64_t) C.int {
	if uint64(table) != nvml.TableSum() {
		return 0
	}
	return 1
}

//export pvdrmNVMLCall
func pvdrmNVMLCall(symbol C.uint32_t, args *C.uint64_t) C.int {
	// The C function made an array of this size on its stack, and waits.
	words := (*[nvml.MaxArgs]uint64)(unsafe.Pointer(args))
	return C.int(library().Call(int(symbol), words))
}

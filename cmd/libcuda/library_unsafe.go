//go:build cgo

package main

// #cgo CFLAGS: -I${SRCDIR}/../../frontend/cuda/capi/entry
// #include "bridge.h"
import "C"

import (
	"sync"
	"unsafe"

	"pvdrm/drm"
	"pvdrm/drm/trace"
	"pvdrm/frontend"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/capi"
	"pvdrm/internal/progmem"
)

// program is libcuda.so.1, which loaded this library.
var program *C.struct_pvdrm_program

// library is made at the first call, when the program's environment is there.
var library = sync.OnceValue(func() *capi.Library {
	return capi.New(capi.Config{
		Open: openers(), Memory: progmem.Own{}, Pages: pages{}, Output: standardOutput{},
		Symbol: func(i int) uint64 { return uint64(C.pvdrm_symbol(program, C.uint32_t(i))) },
		Invoke: func(fn, a, b, c uint64) uint64 {
			return uint64(C.pvdrm_invoke(program, C.uint64_t(fn), C.uint64_t(a), C.uint64_t(b), C.uint64_t(c)))
		},
	})
})

// standardOutput is stdout of the program's C library, whose buffer may hold what
// the program itself has printed before.
type standardOutput struct{}

func (standardOutput) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	// C reads len(b) bytes of a live slice, and keeps no pointer to them.
	return int(C.pvdrm_print(program, unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)))), nil
}

// openers open the devices that this process has.
func openers() (all []cuda.Opener) {
	for _, open := range frontend.BoundOpeners(false) {
		all = append(all, func() (drm.File, error) {
			file, err := open()
			if err != nil {
				return nil, err // not a nil *frontend.File inside of an interface
			}
			return trace.FromEnv(file)
		})
	}
	return all
}

// pvdrmStart comes before all other calls, and says whether they may come.
//
//export pvdrmStart
func pvdrmStart(p *C.struct_pvdrm_program) C.int {
	if uint64(p.table) != capi.TableSum() {
		return 0
	}
	program = p
	return 1
}

//export pvdrmCall
func pvdrmCall(symbol C.uint32_t, thread C.uint64_t, args *C.uint64_t, top C.uint64_t) C.int {
	// The C function made an array of this size on its stack, and waits.
	words := (*[capi.MaxArgs]uint64)(unsafe.Pointer(args))
	stack := capi.Stack{Low: uint64(uintptr(unsafe.Pointer(args))), High: uint64(top)}
	return C.int(library().Call(int(symbol), uint64(thread), words, stack))
}

//export pvdrmThreadEnd
func pvdrmThreadEnd(thread C.uint64_t) { library().ThreadEnd(uint64(thread)) }

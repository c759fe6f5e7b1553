package capi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/link"
)

// What a program of several units has (nvcc -rdc=true): nvcc links their machine code, and the
// wrapper of the result leads to the fatbins of the units, which have the PTX.

// wrapperLinked is the version of a wrapper whose third word is a pointer to an array of pointers
// to the units' fatbins, which ends with a null pointer.
const wrapperLinked = 2

// runtimeMark is a symbol of NVIDIA's library libcudadevrt, which is one of the units where kernels
// launch kernels. It drives NVIDIA's hardware, so it is left out.
const runtimeMark = "__CNPRT_VERSION_NUMBER__"

// readLinked reads the wrapper of a linked program: its own PTX if it has some, else that of its
// units, linked.
func readLinked(mem Memory, own, units uint64, t takes) ([]byte, error) {
	ptx, err := readFatbinAt(mem, own, t)
	if err == nil || units == 0 || !errors.Is(err, noBinaryForGPU) {
		return ptx, err
	}
	var all Units
	for size, n := 0, 0; ; units += 8 {
		var p [8]byte
		if err := mem.Read(p[:], units); err != nil {
			return nil, err
		}
		at := binary.LittleEndian.Uint64(p[:])
		if at == 0 {
			break
		}
		b, err := readFatbin(mem, at)
		if err != nil {
			return nil, err
		}
		if size += len(b); size > maxImage {
			return nil, fmt.Errorf("the units of the image have more than %d bytes: %w", maxImage, invalidImage)
		}
		images, _, err := Images(b)
		if err != nil {
			return nil, err
		}
		if n++; n > link.MaxUnits {
			return nil, fmt.Errorf("the image has more than %d units: %w", link.MaxUnits, invalidImage)
		}
		if all.Runtime(images) {
			continue
		}
		if err := all.Add(images, t.cc); err != nil {
			return nil, err
		}
	}
	if all.l == nil {
		return nil, err
	}
	ptx, _, err = all.Link()
	return ptx, err
}

// Units links the units of a program. The zero value has none.
type Units struct {
	n       int
	l       *link.Linker
	runtime bool // libcudadevrt is one of them
}

// Runtime reports whether the images are those of libcudadevrt, which is left out: PVDRM's device
// runtime takes its place.
func (u *Units) Runtime(images []Image) bool {
	is := isRuntime(images)
	u.runtime = u.runtime || is
	return is
}

func isRuntime(images []Image) bool {
	return slices.ContainsFunc(images, func(m Image) bool {
		b, err := contents(&m)
		return err == nil && bytes.Contains(b, []byte(runtimeMark))
	})
}

// Add takes the images of a unit's fatbin, for a device of compute capability cc (× 10).
func (u *Units) Add(images []Image, cc uint32) error {
	if u.l == nil {
		u.l = link.New()
	}
	u.n++
	name := fmt.Sprintf("unit %d", u.n)
	ptx, err := suitable(images, cc)
	if err != nil {
		return fmt.Errorf("%s of the image: %w", name, err)
	}
	return linkError(u.l.Add(name, ptx))
}

// Link returns the units as one module. Where symbols are missing it lists them with the error.
func (u *Units) Link() (ptx []byte, missing []string, err error) {
	if u.l == nil {
		return nil, nil, errCubin
	}
	if u.runtime {
		u.l.UseRuntime()
	}
	ptx, err = u.l.Complete()
	missing = link.Missing(err)
	if u.runtime && len(missing) > 0 {
		return nil, missing, fmt.Errorf("kernels call functions of CUDA's device runtime that PVDRM does not have (%s): %w", strings.Join(missing, ", "), cuda.ErrNotSupported)
	}
	return ptx, missing, linkError(err)
}

// linkError gives an error of the linker its result.
func linkError(err error) error {
	var e *link.Error
	if !errors.As(err, &e) {
		return err
	}
	results := [...]cuda.Result{link.NotPTX: invalidImage, link.Syntax: cuda.ErrInvalidPTX, link.Symbols: invalidSource,
		link.Unsupported: cuda.ErrNotSupported, link.Broken: cuda.ErrUnknown}
	return fmt.Errorf("%w (%w)", err, results[e.Kind])
}

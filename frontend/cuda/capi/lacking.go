package capi

import (
	"errors"
	"fmt"
	"strings"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// lacking reports whether a result says that PVDRM lacks something, and not that the program made
// a mistake or that the device is as it is.
func lacking(e *entry, r cuda.Result) bool {
	switch r {
	case cuda.ErrNotSupported, cuda.ErrInvalidPTX, noBinaryForGPU:
		return true
	case cuda.ErrNotFound:
		return e.name == callerEntry
	}
	return false
}

// explain adds to the error of a fault that it was in registered memory, if so, which an NVIDIA GPU
// would have reached. It reports whether this is the first such error.
func (l *Library) explain(err *error) bool {
	for _, x := range l.allContexts() {
		at := x.FaultAddress()
		of, _ := x.registered(at)
		if at == 0 || of.bytes == 0 {
			continue
		}
		what := "which the device cannot map; allocate it with cuMemHostAlloc"
		if of.host != nil {
			what = "whose address for kernels is another one; ask for it with cuMemHostGetDevicePointer"
		}
		*err = &cuda.Error{Call: "cuMemHostRegister", Result: cuda.ErrIllegalAddress,
			Err: fmt.Errorf("0x%x is memory of cuMemHostRegister, %s (%v)", at, what, *err)}
		return l.explained.CompareAndSwap(false, true)
	}
	return false
}

// reason is the innermost cause of an error, without the names of the calls and results around it.
func reason(err error) string {
	var refused *drm.ModuleError
	if errors.As(err, &refused) {
		if at := strings.Index(refused.Log, "load module: "); at >= 0 {
			return firstLine(refused.Log[at+len("load module: "):])
		}
		return firstLine(refused.Log)
	}
	var e *cuda.Error
	for errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	text := err.Error()
	var r cuda.Result
	if errors.As(err, &r) {
		text = strings.TrimSuffix(text, ": "+r.Error())
	}
	return text
}

// firstLine is the first line of a log, and how many follow.
func firstLine(log string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(log), "\n")
	if rest != "" {
		first += " (and more)"
	}
	return first
}

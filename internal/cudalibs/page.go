package cudalibs

import (
	"fmt"
	"slices"
	"strings"
)

const pageHead = `# NVIDIA's libraries in a guest

Generated from the table in internal/cudalibs by "go generate ./internal/cudalibs"; do not edit.

cuBLAS, cuDNN, cuFFT and NVIDIA's other libraries have a CUDA runtime inside that accepts NVIDIA's own
driver only. So a guest gets libraries of the same names, with the same versions of symbols, whose
functions have the host's real library called, in the worker of the guest's process
([nvidia.md](nvidia.md)). They need --device cuda, and the libraries on the host:

    pvdrm run --device cuda --cuda-libs ~/venv -- python3 train.py
    pvdrm up --device cuda --cuda-libs ~/venv --root / -- python3 train.py

--cuda-libs names a directory that has them, or a Python environment with NVIDIA's wheels; several are separated by colons.
By default they are looked for in the active environment (VIRTUAL_ENV, CONDA_PREFIX), in that of the python3 in PATH, in /usr/local/cuda, and
where the system's loader looks. "none" turns it off. "make build" makes the guest's libraries, in
bin/lib/cuda-libs. Programs of pvdrm run, and in the machines of pvdrm up, find them only where --cuda-libs is given: without it a program that
does without these libraries, as JAX does, keeps its own.

## How a call goes

* The guest's function encodes its arguments by its row of the table. Numbers and arrays in the program's memory are copied;
  addresses for the GPU stay as they are, since they mean the same in the worker. A wild pointer to memory of the program is the
  library's own error for wrong arguments.
* A call that only queues work on the GPU (*async* below) goes to the channel of its stream, in order with
  kernels and copies, and is not waited for. An error that the library returns for it is returned by a later
  call of the same library, as a CUDA error of a kernel is. Where a call that waits for the GPU comes first (a
  synchronization, a copy to memory of the program), that is CUDA_ERROR_UNKNOWN. PVDRM_CUDA_LOG=errors names the call.
* A call that returns something (*sync*, *control*) is waited for until the library has returned.
* Descriptors are made, filled and destroyed (*late*) in the guest; that goes along with the
  next call that needs them.
  The pack of arguments of a cuDNN plan is also finalized with the call that executes it, which returns the error, if there is one.
* Stream, workspace, math mode and pointer mode are kept in the guest (*set*, *get*). Each call has them all, and the worker sets
  what has changed.
* While a stream is captured, calls become nodes of the graph (of type EMPTY, when asked), which make the same call, with the same state, at each
  launch. A call with results invalidates the capture. Handles that a graph uses live as long as
  their context.
* What only asks, by numbers and by descriptors, such as the size of a workspace or cuBLASLt's heuristic, is asked once: the guest keeps the answer for equal ones, by
  all that it has told the library of them.
* Handles are numbers. A wrong, foreign or destroyed one is the library's own error. What a library does with wrong addresses or sizes
  happens in the guest's worker, and ends that context alone.

## What was tried

On an H200 (driver 580.159, CUDA 13.0, 2026-11-27) a C program gave what it gives natively, bit for bit, as a
local guest with --sandbox=off: products in float, TF32, half precision and in batches, a dot product, a captured product, cublasLtMatmul with a
bias and the heuristic, and one- and two-dimensional transforms ([benchmarks-frameworks.md](benchmarks-frameworks.md#nvidias-libraries-called-by-a-guest)).
On 2026-11-28 a C program gave native's results bit for bit in confined workers on an H200: with cuBLAS and cuBLASLt as before, convolutions by
cuDNN's two interfaces (eight plans of its heuristic), transforms of cuFFT, an LU and a symmetric eigenvalue problem of cuSOLVER, a product of
cuSPARSE and two distributions of cuRAND; so did PyTorch, CuPy, JAX and 22 programs of libraries that
use them ([frameworks.md](frameworks.md#what-was-run)). The filter of a worker has the requests of NVIDIA's driver that were recorded then
(gpu/nvidia/record). A library of another version may need others: one that can make no handle in the confined
worker is not offered, and a line in the log names it; --sandbox=off goes without the filter.

Versions, and the texts of errors, need no context: programs ask for them when they are imported, before cuInit, or when their
context is gone. The guest takes them from any context that it has, or from one that it makes to ask and destroys, and keeps the answers. A
library that makes no handle in the confined worker still tells its version. Where there is no device, or it calls no libraries,
the status is the one for what is not supported, a version that is returned is 0, and a text says that there is none.

A function that is not supported returns the library's status for that, and PVDRM_CUDA_LOG=errors says why. On the software GPU there are none of these libraries, and every call returns that status.

NCCL is none of these libraries: it is a program of the CUDA runtime, and the guest's own runs in the guest
([frameworks.md](frameworks.md#several-gpus)).

`

// Page returns docs/cuda-libraries.md.
func Page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	b.WriteString("## Coverage\n\nOf the functions that the headers of CUDA 13.0 and cuDNN 9 declare, *proposed* are those whose row is as\n`internal/cudalibs/propose` makes it from the header, *annotated* those of which a person has changed the row, such\nas which pointers are to memory of the host and how much, and *missing* those that are not supported.\n\n")
	b.WriteString("| library | names | functions | proposed | annotated | missing | supported |\n|---|---|---|---|---|---|---|\n")
	for _, l := range All().Libraries {
		n := l.coverage()
		all := len(l.Functions)
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d %% |\n", l.Name, strings.Join(l.Names, ", "), all, n[0], n[1], n[2], 100*(all-n[2])/all)
	}
	for _, l := range All().Libraries {
		fmt.Fprintf(&b, "\n## %s\n\n", l.Name)
		for _, m := range []Mode{Async, Sync, Control, Late, Set, Get, Text, Number} {
			if names := l.named(m); len(names) > 0 {
				fmt.Fprintf(&b, "*%s*: %s.\n\n", modeName(m), strings.Join(names, ", "))
			}
		}
		b.WriteString(l.missing())
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func modeName(m Mode) string {
	for name, is := range modeNames {
		if is == m {
			return name
		}
	}
	return ""
}

// named lists functions of a mode.
func (l *Library) named(m Mode) (names []string) {
	for _, f := range l.Functions {
		if f.Mode == m {
			names = append(names, f.Name)
		}
	}
	return names
}

// missing lists functions that are not supported, by the reason.
func (l *Library) missing() string {
	var b strings.Builder
	var reasons []string
	by := map[string][]string{}
	for _, f := range l.Functions {
		if f.Mode != None {
			continue
		}
		if by[f.Why] == nil {
			reasons = append(reasons, f.Why)
		}
		by[f.Why] = append(by[f.Why], f.Name)
	}
	slices.Sort(reasons)
	if len(reasons) > 0 {
		b.WriteString("Not supported:\n\n| functions | why |\n|---|---|\n")
	}
	for _, why := range reasons {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(by[why], ", "), why)
	}
	return b.String()
}

// coverage counts functions whose row a header alone tells, those that a person has annotated, and those that
// are not supported. What only a person can know are memory of the host and parts of the state.
func (l *Library) coverage() (n [3]int) {
	for _, f := range l.Functions {
		switch {
		case f.Mode == None:
			n[2]++
		case f.Mode == Set || f.Mode == Get || slices.ContainsFunc(f.Params, annotated):
			n[1]++
		default:
			n[0]++
		}
	}
	return n
}

func annotated(p Param) bool {
	switch p.Class {
	case Result, In, InOut, Work, String, Typed, Found:
		return true
	case Out:
		return p.Size.terms[0][0].arg >= 0 || len(p.Size.terms[0]) > 1
	}
	return false
}

package capi

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pvdrm/frontend/cuda"
)

// callerEntry is the entry point whose third word is the address that it returns to.
const callerEntry = "cuGetExportTable"

// getExportTable is what the runtime library asks for private tables with, which
// are not documented. There are none. What the runtime makes of that is an error
// that does not help, so each object that asks is told once what does; the log names the table.
func getExportTable(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	id, err := c.read(c.u64(1), 16)
	if err != nil {
		return err
	}
	if err := to.set(0); err != nil {
		return err
	}
	object := objectAt(c.u64(2))
	if compiles(object) {
		return fmt.Errorf("private table %x for %s: %w (%w)", id, filepath.Base(object), errDoesWithout, cuda.ErrNotFound)
	}
	if _, told := c.lib.noTables.LoadOrStore(object, true); !told {
		c.lib.cfg.Logf("%s", privateHint(object))
	}
	return c.fail(cuda.ErrNotFound, "private table %x", id)
}

// errDoesWithout marks what a program asked for in vain, and does without.
var errDoesWithout = errors.New("not needed")

// compiles reports whether an object is a compiler of NVIDIA's, which needs no GPU: its runtime is there to
// ask for the device's name.
func compiles(object string) bool {
	name := filepath.Base(object)
	return strings.HasPrefix(name, "libnvrtc") || strings.HasPrefix(name, "libnvJitLink")
}

// objectAt is the file that is mapped at an address of this process; empty where
// that is not known.
func objectAt(addr uint64) string {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it is only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 7f00-7f10 r-xp 00000000 fe:01 1234    /path of it
		fields := strings.SplitN(lines.Text(), " ", 6)
		first, last, _ := strings.Cut(fields[0], "-")
		from, err := strconv.ParseUint(first, 16, 64)
		to, err2 := strconv.ParseUint(last, 16, 64)
		if err != nil || err2 != nil || addr < from || addr >= to || len(fields) < 6 {
			continue
		}
		if path := strings.TrimLeft(fields[5], " "); strings.HasPrefix(path, "/") {
			return path
		}
		return ""
	}
	return ""
}

// closed are libraries of NVIDIA's that are programs of its runtime without a symbol table, or
// need its driver.
var closed = []string{"libcublas", "libcudnn", "libcufft", "libcurand", "libcusparse", "libcusolver", "libnpp", "libnccl",
	"libcutensor", "libcutlass", "libnvjpeg", "libcupti", "libnvinfer", "libcufile", "libnvcuvid", "libnvidia-encode"}

// NeedsDriver reports whether the library of a file's name is one of NVIDIA's that needs NVIDIA's driver.
func NeedsDriver(name string) bool {
	return slices.ContainsFunc(closed, func(c string) bool { return strings.HasPrefix(name, c) })
}

// privateHint says what the object that asks for private tables needs.
func privateHint(object string) string {
	exe, err := os.Readlink("/proc/self/exe")
	who, more := "the library "+object, "; NVIDIA's own libraries, as cuBLAS, do not work here"
	switch {
	case NeedsDriver(filepath.Base(object)):
		return fmt.Sprintf("the library %s is NVIDIA's and works with NVIDIA's driver only: what it is asked for fails here", object)
	case object == "":
		who = "the program or a library of it"
	case err == nil && object == exe:
		who, more = "the program "+object, ""
	}
	return fmt.Sprintf("%s has NVIDIA's own CUDA runtime in it, which works with NVIDIA's driver only. Where its symbol table is there, "+
		"pvdrm run and the guest images lead its calls to PVDRM's runtime: build it again without strip or -s, or link it with nvcc -cudart shared%s", who, more)
}

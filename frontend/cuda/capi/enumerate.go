package capi

import (
	"bytes"
	"slices"
	"strings"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/fatbin"
)

// maxEnumerated bounds lists of functions and kernels that a program hands over.
const maxEnumerated = 1 << 20

// entries lists the kernels of PTX in the order of its text, each once: some are declared before
// they are defined.
func entries(ptx []byte) []string {
	list := entriesByLine
	if bytes.Contains(ptx, []byte("/*")) {
		list = entriesByWord
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list(ptx), func(name string) bool {
		before := seen[name]
		seen[name] = true
		return before
	})
}

// entriesByLine is entries for PTX without comments that may be longer than a line.
func entriesByLine(ptx []byte) (names []string) {
	for rest := ptx; ; {
		at := bytes.Index(rest, []byte(".entry"))
		if at < 0 {
			return names
		}
		begin := bytes.LastIndexByte(rest[:at], '\n') + 1
		comment := bytes.Contains(rest[begin:at], []byte("//"))
		end := at + len(".entry")
		if name, _ := nextWord(rest[end:]); !comment && name != "" && bytes.IndexByte([]byte(" \t\r\n"), rest[end]) >= 0 {
			names = append(names, entryName(name))
		}
		rest = rest[end:]
	}
}

// entriesByWord is entries for PTX with comments that may be longer than a line.
func entriesByWord(ptx []byte) (names []string) {
	for last := ""; ; {
		var word string
		if word, ptx = nextWord(ptx); word == "" {
			return names
		}
		if last == ".entry" {
			names = append(names, entryName(word))
		}
		last = word
	}
}

// entryName is the name at the beginning of a word, behind which parameters or the body may follow.
func entryName(word string) string {
	if end := strings.IndexAny(word, "({"); end >= 0 {
		return word[:end]
	}
	return word
}

// kernelNames lists the kernels of PTX or of machine code.
func kernelNames(image []byte) ([]string, error) {
	if !fatbin.Is(image) {
		return entries(image), nil
	}
	names, err := fatbin.Kernels(image)
	return names, imageError(err)
}

// kernelNames lists the kernels of a module.
func (m *module) kernelNames() ([]string, error) {
	if m.code != nil {
		return kernelNames(m.code)
	}
	return m.entries, nil
}

// moduleGetFunctionCount gets (count, module).
func moduleGetFunctionCount(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	m, err := c.module(1)
	if err != nil {
		return err
	}
	names, err := m.kernelNames()
	if err != nil {
		return err
	}
	return to.set(uint64(len(names)))
}

// moduleEnumerateFunctions gets (functions, room, module).
func moduleEnumerateFunctions(c *call) error {
	m, err := c.module(2)
	if err != nil {
		return err
	}
	names, err := m.kernelNames()
	if err != nil {
		return err
	}
	return c.enumerate(names, func(name string) (uint64, error) {
		f, err := c.functionOf(m, name)
		if err != nil {
			return 0, err
		}
		return f.handle, nil
	})
}

// libraryGetKernelCount gets (count, library).
func libraryGetKernelCount(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	l, err := c.library(1)
	if err != nil {
		return err
	}
	names, err := kernelNames(l.ptx)
	if err != nil {
		return err
	}
	return to.set(uint64(len(names)))
}

// libraryEnumerateKernels gets (kernels, room, library).
func libraryEnumerateKernels(c *call) error {
	l, err := c.library(2)
	if err != nil {
		return err
	}
	names, err := kernelNames(l.ptx)
	if err != nil {
		return err
	}
	return c.enumerate(names, func(name string) (uint64, error) { return c.kernelOf(l, name), nil })
}

// enumerate writes as many handles as argument 1 has room for to argument 0.
func (c *call) enumerate(names []string, handle func(name string) (uint64, error)) error {
	room := c.u32(1)
	if c.u64(0) == 0 || room > maxEnumerated {
		return c.fail(cuda.ErrInvalidValue, "room for %d at 0x%x", room, c.u64(0))
	}
	var all []uint64
	for _, name := range names[:min(len(names), int(room))] {
		h, err := handle(name)
		if err != nil {
			return err
		}
		all = append(all, h)
	}
	if len(all) == 0 {
		return nil
	}
	return c.lib.cfg.Memory.Write(c.u64(0), wordBytes(all))
}

// kernelGetLibrary gets (library, kernel).
func kernelGetLibrary(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	k, ok := find[*kernel](c.lib, c.u64(1))
	if !ok {
		return c.fail(cuda.ErrInvalidHandle, "0x%x is no kernel", c.u64(1))
	}
	return to.set(k.lib.handle)
}

package guestimage

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// modulesWanted are what a guest needs: the bus, the control port, the GPU.
var modulesWanted = []string{"virtio_pci", "virtio_console", "virtio_gpu"}

// moduleName returns the kernel's name for a module file, empty for other files. Files spell it with
// dashes or underscores, the kernel with underscores.
func moduleName(file string) string {
	for _, suffix := range []string{".ko", ".ko.xz", ".ko.zst"} {
		if base, ok := strings.CutSuffix(file, suffix); ok {
			return strings.ReplaceAll(base, "-", "_")
		}
	}
	return ""
}

// moduleDepends reads which modules a module needs, from the ELF section that modinfo(8) reads.
func moduleDepends(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(entry, []byte("depends=")); ok && len(list) > 0 {
			return strings.Split(strings.ReplaceAll(string(list), "-", "_"), ","), nil
		}
	}
	return nil, nil
}

// moduleOrder returns wanted and all that they depend on, each after its dependencies. depends
// returns the dependencies of one module.
func moduleOrder(wanted []string, depends func(name string) ([]string, error)) ([]string, error) {
	var order, path []string
	var visit func(name string) error
	visit = func(name string) error {
		if slices.Contains(order, name) {
			return nil
		}
		if slices.Contains(path, name) {
			return fmt.Errorf("modules depend on each other: %s", strings.Join(append(path, name), " → "))
		}
		path = append(path, name)
		defer func() { path = path[:len(path)-1] }()
		needs, err := depends(name)
		if err != nil {
			return fmt.Errorf("module %s: %w", strings.Join(path, " → "), err)
		}
		for _, n := range needs {
			if err := visit(n); err != nil {
				return err
			}
		}
		order = append(order, name)
		return nil
	}
	for _, w := range wanted {
		if err := visit(w); err != nil {
			return nil, err
		}
	}
	return order, nil
}

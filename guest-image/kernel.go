package guestimage

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Limits on what is read into memory, in bytes.
const (
	maxModule  = 64 << 20
	maxVmlinuz = 64 << 20
	maxVmlinux = 256 << 20
)

// kernel is what was taken from a kernel package: files of one folder in the cache.
type kernel struct {
	dir     string
	release string   // as uname -r says
	modules []string // names in the order of loading, without ".ko"
}

func (k kernel) vmlinux() string           { return filepath.Join(k.dir, "vmlinux") }
func (k kernel) vmlinuz() string           { return filepath.Join(k.dir, "vmlinuz") }
func (k kernel) module(name string) string { return filepath.Join(k.dir, "modules", name+".ko") }
func (k kernel) listFile() string          { return filepath.Join(k.dir, "modules", "order") }
func (k kernel) releaseFile() string       { return filepath.Join(k.dir, "release") }

// boot returns what QEMU is to load.
func (k kernel) boot() string {
	if _, err := os.Stat(k.vmlinux()); err == nil {
		return k.vmlinux()
	}
	return k.vmlinuz()
}

// openKernel returns the kernel in dir, os.ErrNotExist where there is none.
func openKernel(dir string) (kernel, error) {
	k := kernel{dir: dir}
	release, err := os.ReadFile(k.releaseFile())
	if err != nil {
		return k, err
	}
	list, err := os.ReadFile(k.listFile())
	if err != nil {
		return k, err
	}
	k.release, k.modules = string(release), strings.Fields(string(list))
	return k, nil
}

// order returns wanted and all modules that they depend on, in the order of loading.
func (k kernel) order(wanted []string) ([]string, error) {
	order, err := moduleOrder(wanted, func(name string) ([]string, error) {
		if !slices.Contains(k.modules, name) {
			return nil, nil // it is part of the kernel
		}
		b, err := os.ReadFile(k.module(name))
		if err != nil {
			return nil, err
		}
		return moduleDepends(b)
	})
	return slices.DeleteFunc(order, func(name string) bool { return !slices.Contains(k.modules, name) }), err
}

// unpackKernel fills dir, which exists and is empty, from the packages of a kernel.
func unpackKernel(ctx context.Context, debs []string, dir string, wanted []string) error {
	k := kernel{dir: dir}
	spool, err := os.MkdirTemp(dir, "spool-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(spool)
	if err := os.Mkdir(filepath.Join(dir, "modules"), 0o755); err != nil {
		return err
	}
	p := &spooled{files: map[string]string{}, builtin: map[string]bool{}}
	for _, deb := range debs {
		if err := p.spool(ctx, deb, spool, k.vmlinuz()); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
	}
	if p.release == "" {
		return fmt.Errorf("unpack %s: no boot/vmlinuz-* in the package", filepath.Base(debs[0]))
	}
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(name string) bool {
		return p.absent(name) && (name == oldCRC32C || slices.Contains(shareModules, name))
	})
	order, err := moduleOrder(wanted, func(name string) ([]string, error) { return p.place(k, name) })
	if err != nil {
		return err
	}
	order = slices.DeleteFunc(order, func(name string) bool { return p.builtin[name] })
	if err := os.WriteFile(k.listFile(), []byte(strings.Join(order, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := extractVmlinux(k.vmlinuz(), k.vmlinux()); err != nil && !errors.Is(err, errNotXZ) {
		return fmt.Errorf("kernel %s: %w", p.release, err)
	}
	return os.WriteFile(k.releaseFile(), []byte(p.release), 0o644)
}

// spooled is the content of a kernel's packages in files.
type spooled struct {
	release string
	files   map[string]string // module name → file
	builtin map[string]bool   // modules that are part of the kernel
}

// absent reports whether the kernel has no such module.
func (s *spooled) absent(name string) bool { return !s.builtin[name] && s.files[name] == "" }

// spool reads a package once: which modules are needed is known only after that.
func (s *spooled) spool(ctx context.Context, deb, dir, vmlinuz string) error {
	return debFiles(deb, func(h *tar.Header, r io.Reader) (bool, error) {
		if err := s.take(h, r, dir, vmlinuz); err != nil {
			return false, fmt.Errorf("%s: %w", h.Name, err)
		}
		return false, ctx.Err()
	})
}

func (s *spooled) take(h *tar.Header, r io.Reader, spool, vmlinuz string) error {
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	base := path.Base(h.Name)
	if release, ok := strings.CutPrefix(base, "vmlinuz-"); ok {
		s.release = release
		return writeFile(vmlinuz, io.LimitReader(r, maxVmlinuz), 0o644)
	}
	if base == "modules.builtin" {
		list, err := io.ReadAll(io.LimitReader(r, 1<<20))
		for _, p := range strings.Fields(string(list)) {
			s.builtin[moduleName(path.Base(p))] = true
		}
		return err
	}
	name := moduleName(base)
	if name == "" || s.files[name] != "" {
		return nil
	}
	s.files[name] = filepath.Join(spool, base)
	return writeFile(s.files[name], io.LimitReader(r, maxModule), 0o644)
}

// place puts one module into the kernel's folder, decompressed, and returns what it depends on.
func (s *spooled) place(k kernel, name string) ([]string, error) {
	if s.builtin[name] {
		return nil, nil
	}
	file := s.files[name]
	if file == "" {
		return nil, fmt.Errorf("the kernel package %s does not have it (Debian's cloud kernel has no DRM: linux-image-amd64 is needed)", s.release)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	suffix := strings.TrimPrefix(filepath.Ext(file), ".ko")
	r, err := decompress(f, suffix)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxModule))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(k.module(name), b, 0o644); err != nil {
		return nil, err
	}
	return moduleDepends(b)
}

// Offsets in a bzImage (Linux, Documentation/x86/boot.rst).
const (
	bzSetupSects    = 0x1f1 // u8, in sectors of 512 bytes, 0 means 4
	bzMagic         = 0x202 // "HdrS"
	bzPayloadOffset = 0x248 // u32, from the end of the setup code
	bzPayloadLength = 0x24c // u32
	bzHeaderEnd     = 0x250
)

// extractVmlinux takes the ELF kernel out of a bzImage. QEMU boots it through its PVH entry, so that
// the guest need not decompress it: that takes 2.8 of 4.9 seconds where the processor is emulated.
func extractVmlinux(bzImage, to string) error {
	b, err := os.ReadFile(bzImage)
	if err != nil {
		return err
	}
	if len(b) < bzHeaderEnd || string(b[bzMagic:bzMagic+4]) != "HdrS" {
		return errors.New("not a bzImage")
	}
	sects := uint64(b[bzSetupSects])
	if sects == 0 {
		sects = 4
	}
	start := (sects+1)*512 + uint64(binary.LittleEndian.Uint32(b[bzPayloadOffset:]))
	end := start + uint64(binary.LittleEndian.Uint32(b[bzPayloadLength:]))
	if start > end || end > uint64(len(b)) {
		return errors.New("not a bzImage: its payload lies outside")
	}
	out, err := unpackXZ(b[start:end], maxVmlinux)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(out, []byte("\x7fELF")) {
		return errors.New("its payload is not an ELF kernel")
	}
	return writeSparse(to, out)
}

package vmm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pvdrm/vmm/qmp"
)

// maxPicture bounds a screenshot in bytes: what a guest draws decides how well it compresses.
const maxPicture = 256 << 20

// Screenshot writes what the guest's screen shows to a PNG file.
func (vm *VM) Screenshot(ctx context.Context, path string) error {
	return Screenshot(ctx, vm.qmp, path)
}

// Screenshot is the method of that name for any QEMU (7.1 or later) that q is connected to.
func Screenshot(ctx context.Context, q *qmp.Client, path string) error {
	picture, err := screen(ctx, q)
	if err != nil {
		return fmt.Errorf("screenshot: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".screenshot-*")
	if err != nil {
		return fmt.Errorf("screenshot: %w", err)
	}
	_, err = f.Write(picture)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("screenshot: %w", err)
	}
	return nil
}

// screen returns the screen as PNG. QEMU writes it to an anonymous file of ours, so it needs no right
// to any directory.
func screen(ctx context.Context, q *qmp.Client) ([]byte, error) {
	fd, err := unix.MemfdCreate("pvdrm-screenshot", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), "screenshot")
	defer f.Close()
	// QEMU opens it for writing only, and takes just a descriptor that is exactly that.
	w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	set, name, err := q.SendFile(ctx, int(w.Fd()))
	if err != nil {
		return nil, err
	}
	err = q.Execute(ctx, "screendump", map[string]string{"filename": name, "format": "png"}, nil)
	if rerr := q.RemoveFile(context.WithoutCancel(ctx), set); err == nil {
		err = rerr
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(io.NewSectionReader(f, 0, maxPicture), maxPicture))
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")) {
		return nil, errors.New("QEMU wrote no picture: has the guest a screen?")
	}
	return b, nil
}

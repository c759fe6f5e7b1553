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
	"pvdrm/vmm/vnc"
)

// maxPicture bounds a screenshot in bytes: its content decides how well it compresses.
const maxPicture = 256 << 20

// Screenshot writes the content of the guest's screen to a PNG file.
func (vm *VM) Screenshot(ctx context.Context, path string) error {
	return Screenshot(ctx, vm.qmp, path)
}

// Screenshot is the method of that name for any QEMU (7.1 or later) that q is connected to.
func Screenshot(ctx context.Context, q *qmp.Client, path string) error {
	picture, err := screen(ctx, q, "png")
	if err == nil && !bytes.HasPrefix(picture, []byte("\x89PNG\r\n\x1a\n")) {
		err = errNoPicture
	}
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

// errNoPicture reports that QEMU did not write a picture.
var errNoPicture = errors.New("QEMU wrote no picture: has the guest a screen?")

// Picture returns the content of the guest's screen.
func (vm *VM) Picture(ctx context.Context) (*vnc.Picture, error) { return Picture(ctx, vm.qmp) }

// Picture is the method of that name for any QEMU that q is connected to.
func Picture(ctx context.Context, q *qmp.Client) (*vnc.Picture, error) {
	b, err := screen(ctx, q, "ppm")
	if err != nil {
		return nil, fmt.Errorf("picture of the screen: %w", err)
	}
	var p vnc.Picture
	var most int
	if n, err := fmt.Sscanf(string(b[:min(len(b), 64)]), "P6\n%d %d\n%d", &p.Width, &p.Height, &most); n != 3 || err != nil || most != 255 {
		return nil, errNoPicture
	}
	size := 3 * p.Width * p.Height
	if p.Width < 1 || p.Height < 1 || p.Width > maxSide || p.Height > maxSide || size > len(b) {
		return nil, errNoPicture
	}
	p.Pix = b[len(b)-size:]
	return &p, nil
}

// screen returns the screen in one of QEMU's formats. QEMU writes it to an anonymous file of ours, so it needs no right
// to any directory.
func screen(ctx context.Context, q *qmp.Client, format string) ([]byte, error) {
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
	err = q.Execute(ctx, "screendump", map[string]string{"filename": name, "format": format}, nil)
	if rerr := q.RemoveFile(context.WithoutCancel(ctx), set); err == nil {
		err = rerr
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(io.NewSectionReader(f, 0, maxPicture), maxPicture))
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	guestimage "pvdrm/guest-image"
	"pvdrm/vmm"
)

// A bundle (scripts/bundle.sh) has beside pvdrm what a machine may lack: QEMU and
// the guest image, in these places.
const (
	bundleQEMU  = "qemu/" + vmm.DefaultQEMU
	bundleImage = "image/image.json" // names files beside it
)

// bundled is a file beside pvdrm, "" where there is none.
func bundled(name string) string {
	self, err := os.Executable()
	if err != nil {
		return "" // then nothing is beside it
	}
	path := filepath.Join(filepath.Dir(self), name)
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	return path
}

// defaultQEMU is the bundle's QEMU, else the one in PATH.
func defaultQEMU() string {
	if path := bundled(bundleQEMU); path != "" {
		return path
	}
	return vmm.DefaultQEMU
}

// bundledImage is the bundle's guest image. The error is fs.ErrNotExist where
// pvdrm is not in a bundle.
func bundledImage() (i guestimage.Image, err error) {
	path := bundled(bundleImage)
	if path == "" {
		return i, fs.ErrNotExist
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &i)
	}
	if err != nil {
		return i, fmt.Errorf("the bundle's guest image: %w; unpack the bundle again", err)
	}
	for _, file := range []*string{&i.Kernel, &i.Vmlinuz, &i.Initrd} {
		*file = filepath.Join(filepath.Dir(path), filepath.Base(*file))
		if _, err := os.Stat(*file); err != nil {
			return i, fmt.Errorf("the bundle's guest image: %w; unpack the bundle again", err)
		}
	}
	return i, nil
}

// findImage is the bundle's image where there is one and no other kind or cache
// was asked for, else the one in the cache, built if need be.
func findImage(cache, kind string, build func() (guestimage.Image, error)) (guestimage.Image, error) {
	if kind == guestimage.Base && cache == guestimage.DefaultCacheDir() {
		if i, err := bundledImage(); !errors.Is(err, fs.ErrNotExist) {
			return i, err
		}
	}
	return build()
}

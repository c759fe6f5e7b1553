package vmm

import (
	"fmt"
	"os"
	"path/filepath"
)

// Share is a directory of the host that the guest may mount, as a 9p device over virtio. Files are
// opened by QEMU, with the rights of the user who runs it, and never outside of the directory.
type Share struct {
	Dir      string
	Tag      string // by which the guest asks for it: letters and digits
	Writable bool
}

// maxShares bounds how many directories a machine has: each is a device.
const maxShares = 16

// checkShares makes the paths absolute, and refuses what QEMU would not open.
func (cfg *Config) checkShares() error {
	if len(cfg.Shares) > maxShares {
		return fmt.Errorf("%d shared directories: a machine has %d at most", len(cfg.Shares), maxShares)
	}
	for i := range cfg.Shares {
		s := &cfg.Shares[i]
		dir, err := filepath.Abs(s.Dir)
		if err != nil {
			return fmt.Errorf("path %s: %w", s.Dir, err)
		}
		s.Dir = dir
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("a directory to share with the guest: %w", err)
		}
		st, err := f.Stat()
		if err == nil && !st.IsDir() {
			err = fmt.Errorf("%s is no directory", dir)
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("a directory to share with the guest: %w", err)
		}
	}
	return nil
}

// arguments are QEMU's for the share.
func (s Share) arguments() []string {
	fs := "local,id=" + s.Tag + ",path=" + escape(s.Dir) + ",security_model=none,multidevs=remap"
	if !s.Writable {
		fs += ",readonly=on"
	}
	return []string{"-fsdev", fs, "-device", "virtio-9p-pci,fsdev=" + s.Tag + ",mount_tag=" + s.Tag}
}

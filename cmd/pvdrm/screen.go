package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"pvdrm/vmm"
)

// screenFlags are those of `pvdrm up` that are about the guest's screen.
type screenFlags struct {
	display    string
	resolution string
	screenshot string
}

func (f *screenFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.display, "display", vmm.NoDisplay, "where to show the guest's screen, as QEMU takes it: none, vnc=:1 (port 5901), vnc=unix:PATH, gtk or sdl")
	c.Flags().StringVar(&f.resolution, "resolution", "", "size of the guest's screen, WIDTHxHEIGHT (default: 1280x800)")
	c.Flags().StringVar(&f.screenshot, "screenshot", "", "when the program has ended, save a picture of the guest's screen to this PNG file")
}

// apply checks the flags and says what they mean for a machine.
func (f *screenFlags) apply(cfg *vmm.Config) error {
	cfg.Display = f.display
	if f.resolution != "" {
		if n, err := fmt.Sscanf(f.resolution+"\n", "%dx%d\n", &cfg.Width, &cfg.Height); n != 2 || err != nil {
			return usageError{fmt.Errorf("--resolution: %q is not of the form 1280x800", f.resolution)}
		}
	}
	if err := cfg.CheckScreen(); err != nil {
		return usageError{err}
	}
	return nil
}

// single reports whether a flag needs a screen that is the only one.
func (f *screenFlags) single() bool { return f.screenshot != "" || f.display != vmm.NoDisplay }

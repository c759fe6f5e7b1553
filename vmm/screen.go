package vmm

import (
	"fmt"
	"slices"
	"strings"
)

// NoDisplay is the Display of a machine whose screen is not shown anywhere. It has
// one all the same; see Screenshot.
const NoDisplay = "none"

// maxSide is the largest width or height of a screen in pixels: what an EDID can say.
const maxSide = 4095

// displays are what Config.Display may be, up to "=" or ",". QEMU needs no OpenGL
// for them: it is given pixels.
var displays = []string{NoDisplay, "vnc", "gtk", "sdl"}

// CheckScreen checks Display, Width and Height.
func (cfg *Config) CheckScreen() error {
	if cfg.Display != "" {
		kind := cfg.Display
		if i := strings.IndexAny(kind, "=,"); i >= 0 {
			kind = kind[:i]
		}
		if !slices.Contains(displays, kind) {
			return fmt.Errorf("display %q: there are %s", cfg.Display, strings.Join(displays, ", "))
		}
		if kind == "vnc" && !strings.Contains(cfg.Display, "=") {
			return fmt.Errorf("display %q: say where, such as vnc=:1 or vnc=unix:PATH", cfg.Display)
		}
	}
	if cfg.Width == 0 && cfg.Height == 0 {
		return nil
	}
	if cfg.Width < 1 || cfg.Height < 1 || cfg.Width > maxSide || cfg.Height > maxSide {
		return fmt.Errorf("a screen of %dx%d pixels: each side can have 1 to %d", cfg.Width, cfg.Height, maxSide)
	}
	return nil
}

// display is QEMU's -display.
func (cfg *Config) display() string {
	if cfg.Display == "" {
		return NoDisplay
	}
	return cfg.Display
}

// gpuDevice is QEMU's -device for the GPU, whose output has the size of the screen.
func (cfg *Config) gpuDevice() string {
	device := "vhost-user-gpu-pci,id=gpu0,chardev=gpu"
	if cfg.Width != 0 {
		device += fmt.Sprintf(",xres=%d,yres=%d", cfg.Width, cfg.Height)
	}
	return device
}

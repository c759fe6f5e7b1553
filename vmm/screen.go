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

// displays are what Config.Display may be, up to ",".
var displays = []string{NoDisplay, "gtk", "sdl"}

// CheckScreen checks Display, Width and Height.
func (cfg *Config) CheckScreen() error {
	kind, _, _ := strings.Cut(cfg.Display, ",")
	if kind != "" && !slices.Contains(displays, kind) {
		return fmt.Errorf("display %q: there are %s", cfg.Display, strings.Join(displays, ", "))
	}
	if cfg.Width == 0 && cfg.Height == 0 {
		return nil
	}
	if cfg.Width < 1 || cfg.Height < 1 || cfg.Width > maxSide || cfg.Height > maxSide {
		return fmt.Errorf("a screen of %dx%d pixels: each side can have 1 to %d", cfg.Width, cfg.Height, maxSide)
	}
	return nil
}

// display is QEMU's -display. QEMU gives a window to a GPU that renders only where
// its own OpenGL takes dmabufs, although from this one it gets mere pixels.
func (cfg *Config) display() string {
	switch {
	case cfg.Display == "":
		return NoDisplay
	case cfg.Display != NoDisplay && !strings.Contains(cfg.Display, "gl="):
		return cfg.Display + ",gl=on"
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

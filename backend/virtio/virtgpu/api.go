package virtgpu

import (
	"fmt"

	"go.uber.org/zap"
)

// Limits of one guest.
const (
	MaxSubmit    = 256 << 10 // bytes of one SUBMIT_3D; Mesa's largest has 4 less
	MaxCapset    = 4096      // bytes of a capability set
	MaxResources = 16384
	MaxContexts  = 1024
	// MaxAttached is the number of resources that are attached to contexts, each counted once for
	// each context.
	MaxAttached = 1 << 18
	// MaxEntries is the number of backing entries of all resources together, and
	// of those that are still in use although the guest took them back.
	MaxEntries = 1 << 20
	// MaxResourceEntries is the number of backing entries of one resource: 1 GiB
	// of scattered pages.
	MaxResourceEntries = 1 << 18
	// MaxMapRuns is the number of runs that Pages.Contiguous maps, for all
	// resources together. Each is a mapping of this process (vm.max_map_count is
	// 65530 by default).
	MaxMapRuns    = 32768
	MaxImageBytes = 256 << 20 // of all 2D images together
	MaxScanouts   = 16
	MaxDimension  = 16384 // pixels, of a 2D image
	// MaxDisplay is the largest width or height in pixels that an EDID can say.
	MaxDisplay = 4095
)

// Config describes a Device.
type Config struct {
	// Components serve the guest's 3D contexts; a device without any offers 2D only. What no
	// component recognizes belongs to the last one, so the one that is most particular comes first.
	Components []Component
	Width      int // of the display, in pixels; 0 to ask QEMU (xres=, yres=, its window)
	Height     int // 0 exactly if Width is
	// DrawPointer draws the pointer into the pictures of the first output, for those who take pictures
	// of QEMU's screen. Windows of QEMU's would show a second one.
	DrawPointer bool
	Log         *zap.Logger // may be nil
}

// capsets are those of all components, in their order.
func (c *Config) capsets() (list []Capset) {
	for _, p := range c.Components {
		list = append(list, p.Capsets()...)
	}
	return list
}

func (c *Config) check() error {
	if (c.Width == 0) != (c.Height == 0) || c.Width < 0 || c.Height < 0 ||
		c.Width > MaxDisplay || c.Height > MaxDisplay {
		return fmt.Errorf("display of %dx%d pixels: give both sides, 1 to %d, or neither", c.Width, c.Height, MaxDisplay)
	}
	seen := make(map[uint32]bool)
	for _, cs := range c.capsets() {
		if cs.ID >= 64 || seen[cs.ID] {
			return fmt.Errorf("capability set %d: ids must differ and be below 64", cs.ID)
		}
		if len(cs.Data) > MaxCapset {
			return fmt.Errorf("capability set %d has %d bytes, at most %d", cs.ID, len(cs.Data), MaxCapset)
		}
		seen[cs.ID] = true
	}
	return nil
}

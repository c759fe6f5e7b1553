package virtgpu

import (
	"fmt"

	"go.uber.org/zap"
)

// Capset is a capability set: what the guest reads with DRM_VIRTGPU_GET_CAPS.
type Capset struct {
	ID      uint32 // below 64
	Version uint32
	Data    []byte // at most 4096 bytes
}

// Renderer serves the 3D contexts of one guest.
type Renderer interface {
	// Capsets returns the capability sets, always the same ones.
	Capsets() []Capset
	// NewContext makes a context. The guest chose the id, which no other living
	// context has, and the name, which is printable ASCII of at most 63 bytes and
	// means nothing. It and the methods of Context are not called concurrently.
	NewContext(id uint32, name string) (Context, error)
}

// Context is one DRM file of the guest. Its methods must not block for long: the
// guest's display waits for them too.
type Context interface {
	// Submit takes the bytes of one SUBMIT_3D, at most MaxSubmit of them, which
	// become the context's. fence is nil if the guest asked for no fence;
	// otherwise the context calls it exactly once, at any time and from any
	// goroutine, and the guest's fence signals. An error answers the command with
	// an error, and fence must not be called then.
	//
	// All fences of a guest are on one timeline in the guest's driver: one that
	// signals also signals those that were submitted before it.
	Submit(cmd []byte, fence func()) error
	// Attach lets the context use a resource. The guest may give it its pages later.
	Attach(r *Resource)
	// Detach takes that back.
	Detach(id uint32)
	// Close ends the context: the file was closed, the driver was reset, or the
	// guest is gone. Its resources are not detached one by one. It calls the fences
	// that are still out, for their commands take up room in the queue of the whole
	// guest; where the guest is gone that does nothing.
	Close()
}

// Limits of one guest.
const (
	MaxSubmit    = 256 << 10 // bytes of one SUBMIT_3D; Mesa's largest has 4 less
	MaxCapset    = 4096      // bytes of a capability set
	MaxResources = 16384
	MaxContexts  = 1024
	// MaxEntries is the number of backing entries of all resources together, and
	// of those that are still in use although the guest took them back.
	MaxEntries = 1 << 20
	// MaxResourceEntries is the number of backing entries of one resource: 1 GiB
	// of scattered pages.
	MaxResourceEntries = 1 << 18
	// MaxMapRuns is the number of runs that Pages.Contiguous maps, for all
	// resources together. Each is a mapping of this process (vm.max_map_count is
	// 65530 where nobody changed it).
	MaxMapRuns    = 32768
	MaxImageBytes = 256 << 20 // of all 2D images together
	MaxScanouts   = 16
	MaxDimension  = 16384 // pixels, of a 2D image
	// MaxDisplay is the largest width or height in pixels that an EDID can say.
	MaxDisplay = 4095
)

// Config says what a Device is to be.
type Config struct {
	Renderer Renderer // nil for a device without 3D
	GL       GL       // for the guest's OpenGL; may be nil, and is without a Renderer
	Width    int      // of the display, in pixels; 0 for what QEMU says (xres=, yres=, its window)
	Height   int      // 0 exactly if Width is
	// DrawPointer draws the pointer into the pictures of the first output, for those who take pictures
	// of QEMU's screen. Windows of QEMU's would show a second one.
	DrawPointer bool
	Log         *zap.Logger // may be nil
}

// capsets are those of all that serves contexts.
func (c *Config) capsets() []Capset {
	list := c.Renderer.Capsets()
	if c.GL != nil {
		list = append(list[:len(list):len(list)], c.GL.Capsets()...)
	}
	return list
}

func (c *Config) check() error {
	if (c.Width == 0) != (c.Height == 0) || c.Width < 0 || c.Height < 0 ||
		c.Width > MaxDisplay || c.Height > MaxDisplay {
		return fmt.Errorf("display of %dx%d pixels: give both sides, 1 to %d, or neither", c.Width, c.Height, MaxDisplay)
	}
	if c.Renderer == nil {
		return nil
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

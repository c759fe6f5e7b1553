package nvidia

import (
	gocontext "context"
	"fmt"
	"io"

	"pvdrm/gpu"
)

// errNoSnapshot is the answer to all that a snapshot or its restoration needs: what a kernel
// has of the GPU is known to the driver alone, which does not write it down.
var errNoSnapshot = fmt.Errorf("%w: libcuda cannot write a context down; use the software GPU to move guests", gpu.ErrUnsupported)

// Snapshot implements gpu.Snapshotter.
func (c *context) Snapshot(gocontext.Context, io.Writer) (*gpu.Objects, error) {
	return nil, c.wrap("snapshot", errNoSnapshot)
}

// Restore implements gpu.Restorer.
func (d *device) Restore(_ gocontext.Context, label string, _ io.Reader, _ gpu.Owner) (*gpu.Objects, error) {
	return nil, fmt.Errorf("restore context %q: %w", label, errNoSnapshot)
}

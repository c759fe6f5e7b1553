// Package carrier declares the way from a frontend to its backend: how granted
// memory is made and how each side wakes the other. Everything else travels
// through the ring in granted memory.
package carrier

import (
	"time"

	"pvdrm/hypercall"
)

// Carrier is one connection to a backend: one DRM file. All methods but Close
// may be called from several goroutines; Sleep from one at a time. After the
// backend is gone they fail with an error that wraps syscall.ENODEV.
type Carrier interface {
	// Name says what it is, for messages: "virtgpu /dev/dri/renderD128".
	Name() string
	// Capset is what the backend announced; its version has been checked.
	Capset() hypercall.Capset
	// Alloc makes zeroed granted memory of at least size bytes, a multiple of 4096.
	Alloc(size uint64) (*Pages, error)
	// Free gives granted memory back. The mapping must not be used any more.
	Free(p *Pages) error
	// MapAt maps the first size bytes of granted memory once more, at addr; EEXIST
	// if something lies there. Unmap ends it, and must come before Free.
	MapAt(p *Pages, addr, size uint64) ([]byte, error)
	// Export returns a file descriptor by which another process can Import the
	// memory; the caller closes it.
	Export(p *Pages) (fd int, err error)
	// Import adds memory of another process. The descriptor stays the caller's. EXDEV
	// where the memory is of another device, which this one cannot have.
	Import(fd int) (*Pages, error)
	// Attach tells the backend where the ring object is: d.Resource is p.ID.
	Attach(p *Pages, d hypercall.Doorbell) error
	// Settle returns when the backend knows all memory that was made before. It
	// may learn of it later than of what the ring says.
	Settle() error
	// Kick wakes the backend.
	Kick() error
	// Sleep blocks until the backend has cleared the completion flag of the
	// ring, which the caller set before, or the timeout is over; negative means
	// for ever. It may return early for no reason.
	Sleep(timeout time.Duration) error
	// Interrupt ends a Sleep and any other call that waits for the backend, also
	// those to come: the carrier is about to be closed.
	Interrupt()
	// SleepExits reports whether Sleep leaves the guest, so that a short wait is
	// better spent looking now and then.
	SleepExits() bool
	// Doorbells is the number of calls so far that leave the guest: kicks, arms
	// and the making and freeing of memory.
	Doorbells() uint64
	Close() error
}

// Pages is granted memory.
type Pages struct {
	ID     uint32 // by which the backend knows it
	Handle uint32 // of the carrier itself; unused where ID is enough
	Mem    []byte
}

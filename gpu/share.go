package gpu

// Sharer is a Context whose VRAM other contexts of its device can use, each at addresses of its own.
type Sharer interface {
	// Share returns VRAM of the context for others. It is ErrInvalid for memory of another context
	// and for system memory, and ErrClosed for memory that is closed.
	Share(m Memory) (Shared, error)
	// Adopt makes memory of the context of what a context of the same device shares: the same
	// bytes. It is ErrInvalid for what another device shares, and ErrClosed for what is closed.
	Adopt(s Shared) (Memory, error)
}

// Shared is VRAM that contexts share. It lives until it is closed and so is every memory of it,
// that which was shared first included: what has it may outlive the context that made it. Any
// goroutine may call its methods.
type Shared interface {
	// Size is in bytes.
	Size() uint64
	// Close gives it up.
	Close()
}

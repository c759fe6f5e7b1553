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

// PeerSharer is a Context that can have VRAM of the guest's other devices (Properties.Peers), as it can that of
// its own device: its kernels reach it over the bus or a link between the GPUs.
type PeerSharer interface {
	// AdoptPeer makes memory of the context of what a context of another device shares, by the name
	// and the size that PeerShared gives there. Place is where the other device stands among the guest's. Who
	// calls it keeps what is shared from being closed meanwhile; the memory lives on afterwards.
	AdoptPeer(place int, name, size uint64) (Memory, error)
}

// PeerShared is Shared that contexts of the guest's other devices can have, too.
type PeerShared interface {
	Shared
	// PeerName names it among all that its device shares.
	PeerName() uint64
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

package nvidia

import (
	"fmt"
	"slices"

	"pvdrm/gpu"
)

var (
	_ gpu.PeerSharer = (*context)(nil)
	_ gpu.PeerShared = (*shared)(nil)
)

// PeerName implements gpu.PeerShared.
func (s *common) PeerName() uint64 { return s.name }

// peersOf returns what gpu.Properties.Peers is, from what the first worker reaches.
func peersOf(c *Config, p *gpu.Properties) (places uint64) {
	for i, peer := range c.Peers {
		if p.Peers>>i&1 != 0 && p.SharesMapped {
			places |= 1 << peer.Place
		}
	}
	return places
}

// AdoptPeer implements gpu.PeerSharer.
func (c *context) AdoptPeer(place int, name, size uint64) (gpu.Memory, error) {
	m, err := c.adoptPeer(place, name, size)
	if err != nil {
		return nil, c.wrap("adopt memory of another GPU", err)
	}
	return m, nil
}

func (c *context) adoptPeer(place int, name, size uint64) (*memory, error) {
	i := slices.IndexFunc(c.dev.config.Peers, func(p Peer) bool { return p.Place == place })
	switch {
	case i < 0 || c.dev.props.Peers>>place&1 == 0:
		return nil, fmt.Errorf("%w: the GPU does not reach memory of device %d", gpu.ErrUnsupported, place)
	case size == 0 || size%vramPage != 0 || size > c.dev.props.VRAM.Size || name>>foreignBits != 0:
		return nil, fmt.Errorf("%w: %d bytes of another GPU", gpu.ErrInvalid, size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	m := &memory{ctx: c, id: c.id(), size: size, foreign: true}
	if err := c.receive(m, name, i+1); err != nil {
		return nil, err
	}
	return m, nil
}

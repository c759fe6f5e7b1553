package nvidia_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/unixsock"
)

// newPeers opens both GPUs of the fake driver for one guest.
func newPeers(t *testing.T, kind string, wrap wrapper) (clients [2]*fakeClient) {
	ours, theirs, err := unixsock.Pair(unix.SOCK_SEQPACKET)
	require.NoError(t, err)
	for i, keeper := range []*os.File{os.NewFile(uintptr(ours), "keeper"), theirs} {
		command := keeperCommand(kind)
		command = append([]string{command[0], keeperPeersEnv + "=1"}, command[1:]...)
		dev, err := nvidia.New(nvidia.Config{Number: i, Keeper: command, Peers: []nvidia.Peer{{Place: 1 - i, Number: 1 - i, Keeper: keeper}}})
		require.NoError(t, err)
		dev = wrap.of(t, dev)
		t.Cleanup(func() { require.NoError(t, dev.Close()) })
		clients[i] = &fakeClient{T: t, dev: dev, props: dev.Properties()}
		clients[i].open()
	}
	return clients
}

// A context has VRAM of another GPU of its guest, which costs the device that has it only, and lives on when
// that one's context has ended.
func TestPeerVRAM(t *testing.T) { wrappedToo(t, testPeerVRAM) }

func testPeerVRAM(t *testing.T, wrap wrapper) {
	c := newPeers(t, guardedFake, wrap)
	require.EqualValues(t, 2, c[0].props.Peers)
	require.EqualValues(t, 1, c[1].props.Peers)
	s := &sharing{fakeClient: c[0], other: c[1].ctx}
	page := s.props.VRAM.Page
	var err error
	s.mine, err = s.ctx.NewVRAM(sharedPages * page)
	require.NoError(t, err)
	s.mapAll(s.ctx, s.mine, s.props.VRAM.Base)
	s.share, err = s.ctx.(gpu.Sharer).Share(s.mine)
	require.NoError(t, err)
	name := s.share.(gpu.PeerShared).PeerName()
	used, occupied := c[1].dev.VRAMUsed(), c[1].dev.Stats().VRAMOccupied
	theirs, err := c[1].ctx.(gpu.PeerSharer).AdoptPeer(0, name, s.share.Size())
	require.NoError(t, err)
	require.Equal(t, used, c[1].dev.VRAMUsed())
	require.Equal(t, occupied, c[1].dev.Stats().VRAMOccupied)
	const at = 64
	s.mapAll(s.other, theirs, s.props.VRAM.Base+at*page)
	other := *s
	other.fakeClient = c[1]
	for i := range uint64(sharedPages) {
		mine, peer := s.props.VRAM.Base+i*page+64, s.props.VRAM.Base+(at+i)*page+64
		s.word(s.ctx, mine, true, 1000+i)
		require.Equal(t, 1000+i, other.word(s.other, peer, false, 0))
		other.word(s.other, peer, true, 2000+i)
		require.Equal(t, 2000+i, s.word(s.ctx, mine, false, 0))
	}
	_, err = s.other.(gpu.Sharer).Share(theirs)
	require.ErrorIs(t, err, gpu.ErrInvalid, "it is not the context's own")
	again, err := s.other.(gpu.PeerSharer).AdoptPeer(0, name, s.share.Size())
	require.NoError(t, err)
	require.NoError(t, again.Close())
	_, err = c[0].dev.NewContext("next") // by which the keeper lets go
	require.NoError(t, err)
	s.share.Close()
	require.NoError(t, s.ctx.Close())
	require.EqualValues(t, 2001, other.word(s.other, s.props.VRAM.Base+(at+1)*page+64, false, 0))
	require.NoError(t, theirs.Close())
	require.NoError(t, s.other.Close())
	for _, keeper := range children(t, os.Getpid(), "") {
		require.Zero(t, holdersOf(t, keeper), "no keeper holds a page any more")
	}
}

// Names that a device has not shared name nothing, whatever a backend that was taken over asks its keeper for.
func TestPeerVRAMRefused(t *testing.T) {
	c := newPeers(t, guardedFake, nil)
	page := c[0].props.VRAM.Page
	mine, err := c[0].ctx.NewVRAM(page)
	require.NoError(t, err)
	require.NoError(t, c[0].ctx.Map(c[0].props.VRAM.Base, mine, 0, page, gpu.ProtRead))
	from := c[1].ctx.(gpu.PeerSharer)
	for _, test := range []struct {
		name       string
		place      int
		memory     uint64
		size       uint64
		want       error
		afterShare bool
	}{
		{name: "what is not shared", memory: 1, size: page, want: gpu.ErrUnsupported},
		{name: "more than there is", memory: 1, size: 2 * page, want: gpu.ErrUnsupported, afterShare: true},
		{name: "another memory", memory: 7, size: page, want: gpu.ErrUnsupported, afterShare: true},
		{name: "of no device", place: 3, memory: 1, size: page, want: gpu.ErrUnsupported, afterShare: true},
		{name: "of its own", place: 1, memory: 1, size: page, want: gpu.ErrUnsupported, afterShare: true},
		{name: "no bytes", memory: 1, want: gpu.ErrInvalid, afterShare: true},
		{name: "half a page", memory: 1, size: page / 2, want: gpu.ErrInvalid, afterShare: true},
		{name: "a number with a peer", memory: 1 << 56, size: page, want: gpu.ErrInvalid, afterShare: true},
	} {
		if test.afterShare {
			s, err := c[0].ctx.(gpu.Sharer).Share(mine)
			require.NoError(t, err)
			defer s.Close()
		}
		_, err := from.AdoptPeer(test.place, test.memory, test.size)
		require.ErrorIs(t, err, test.want, test.name)
		require.NoError(t, c[1].ctx.Err(), test.name)
	}
	require.NoError(t, c[1].do(c[1].launch("idle")).Err, "its worker lives")
}

// A GPU whose peer's keeper is gone gets nothing of it, and goes on.
func TestPeerThatIsGone(t *testing.T) {
	c := newPeers(t, guardedFake, nil)
	require.NoError(t, c[0].dev.Close())
	_, err := c[1].ctx.(gpu.PeerSharer).AdoptPeer(0, 1, c[1].props.VRAM.Page)
	require.ErrorIs(t, err, gpu.ErrUnsupported)
	require.NoError(t, c[1].do(c[1].launch("idle")).Err)
}

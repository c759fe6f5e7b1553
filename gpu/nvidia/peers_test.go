package nvidia

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// newPeerPair connects two keepers' stores.
func newPeerPair(t *testing.T) (one, other *store, lines [2]*peerLine) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	one, other = newStore(), newStore()
	lines = [2]*peerLine{newPeerLine(fds[0], one), newPeerLine(fds[1], other)}
	one.peers, other.peers = []*peerLine{lines[0]}, []*peerLine{lines[1]}
	t.Cleanup(func() {
		for i, l := range lines {
			_ = unix.Shutdown(fds[i], unix.SHUT_RDWR) // the other may have ended
			<-l.over
			unixsock.Close(fds[i : i+1])
		}
	})
	return one, other, lines
}

// A keeper gives another one the pages that its backend shares, and no others, whatever the number.
func TestKeepersGivePages(t *testing.T) {
	one, other, lines := newPeerPair(t)
	file, err := os.CreateTemp(t.TempDir(), "page")
	require.NoError(t, err)
	hold := func() int {
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		return fd
	}
	shared, kept := pageName{memory: 5, index: 2}, pageName{memory: 6}
	require.True(t, one.add(shared, &keptPage{fd: hold(), shared: true, params: []byte("answer")}))
	require.True(t, one.add(kept, &keptPage{fd: hold()}))
	p := lines[1].fetch(shared)
	require.NotNil(t, p)
	require.Equal(t, "answer", string(p.params))
	var a, b unix.Stat_t
	require.NoError(t, unix.Fstat(p.fd, &a))
	require.NoError(t, unix.Fstat(int(file.Fd()), &b))
	require.Equal(t, b.Ino, a.Ino)
	unixsock.Close([]int{p.fd})
	for _, name := range []pageName{kept, {memory: 5}, {memory: 7}} {
		require.Nil(t, lines[1].fetch(name), name)
	}
	k := &keeping{store: other, mode: stopGive, memory: 5 | 1<<foreignBits, next: 2}
	p, foreign := k.find()
	require.True(t, foreign)
	require.NotNil(t, p)
	unixsock.Close([]int{p.fd})
	k.memory = 5 | 2<<foreignBits // of a peer that there is not
	p, foreign = k.find()
	require.True(t, foreign)
	require.Nil(t, p)
	one.drop(func(pageName, *keptPage) bool { return true })
	require.NoError(t, file.Close())
}

// A keeper that breaks the protocol is not heard any more. An answer to no question is dropped, with its descriptor.
func TestHostilePeers(t *testing.T) {
	for name, send := range map[string]struct {
		b   []byte
		fds int
	}{
		"short":               {b: make([]byte, peerHeader-1)},
		"unknown":             {b: peerMessage(3, pageName{})},
		"two descriptors":     {b: peerMessage(peerAnswers, pageName{}), fds: 2},
		"too long":            {b: make([]byte, peerMost+1)},
		"too many answers":    {b: peerMessage(peerAnswers, pageName{}), fds: 1},
		"a question with one": {b: peerMessage(peerAsks, pageName{memory: 1}), fds: 1},
	} {
		t.Run(name, func(t *testing.T) {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			l := newPeerLine(fds[0], newStore())
			var oob []byte
			if send.fds > 0 {
				oob = unix.UnixRights([]int{0, 1}[:send.fds]...)
			}
			for range 2 {
				_ = unix.Sendmsg(fds[1], send.b, oob, nil, unix.MSG_NOSIGNAL) // it may have ended
			}
			if name == "a question with one" { // is answered: there is none
				b := make([]byte, peerHeader+1)
				n, err := unix.Read(fds[1], b)
				require.NoError(t, err)
				require.Equal(t, peerHeader, n)
				require.EqualValues(t, peerAnswers, binary.LittleEndian.Uint32(b))
				require.NoError(t, unix.Shutdown(fds[1], unix.SHUT_RDWR))
			}
			select {
			case <-l.over:
			case <-time.After(time.Minute):
				require.FailNow(t, "it goes on")
			}
			require.Nil(t, l.fetch(pageName{}))
			select {
			case a := <-l.answers:
				a.drop()
			default:
			}
			unixsock.Close(fds[:])
		})
	}
}

// Of two GPUs the channels' own subdevice stops them, by way of their group's parent.
func TestCensusOfTwoGPUs(t *testing.T) {
	var c census
	for _, o := range [][4]uint32{{1, 10, 11, classSubdevice}, {1, 20, 21, classSubdevice}, {1, 20, 30, classGroup}, {1, 30, 31, 0xc86f}, {1, 31, 32, 0xcbc0}} {
		c.add(5, allocation(o[0], o[1], o[2], o[3]))
	}
	for group, want := range map[uint32]uint32{20: 21, 10: 11} {
		c.groups[0].parent = group
		got, err := c.target(map[int32]int{5: 50})
		require.NoError(t, err)
		require.Equal(t, target{fd: 50, client: 1, device: group, subdevice: want, channels: []channelOf{{client: 1, handle: 31, computes: true}}}, got)
	}
	c.groups = nil // its device is not known
	got, err := c.target(map[int32]int{5: 50})
	require.NoError(t, err)
	require.EqualValues(t, 11, got.subdevice)
}

// FuzzPeers sends a keeper what another one may send. It gives the page that is shared when it is asked for that, and no descriptor else.
func FuzzPeers(f *testing.F) {
	shared := pageName{memory: 5, index: 2}
	f.Add(peerMessage(peerAsks, shared), false)
	f.Add(peerMessage(peerAsks, pageName{memory: 5}), true)
	f.Add(append(peerMessage(peerAnswers, shared), "params"...), true)
	f.Add(make([]byte, peerHeader-1), false)
	f.Fuzz(func(t *testing.T, b []byte, with bool) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unixsock.Close(fds[:])
		of := newStore()
		null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.True(t, of.add(shared, &keptPage{fd: null, shared: true, params: []byte("answer")}))
		defer of.drop(func(pageName, *keptPage) bool { return true })
		l := newPeerLine(fds[0], of)
		var oob []byte
		if with {
			oob = unix.UnixRights(null)
		}
		if len(b) == 0 || unix.Sendmsg(fds[1], b, oob, nil, unix.MSG_NOSIGNAL) != nil { // an empty packet is the end of a socket
			b = nil
		}
		require.NoError(t, unix.Shutdown(fds[1], unix.SHUT_WR))
		<-l.over
		require.NoError(t, unix.Shutdown(fds[0], unix.SHUT_WR))
		got, room := make([]byte, peerMost), make([]byte, unix.CmsgSpace(4))
		n, oobn, _, _, err := unix.Recvmsg(fds[1], got, room, unix.MSG_CMSG_CLOEXEC)
		require.NoError(t, err)
		if oobn > 0 {
			given, err := unixsock.Descriptors(room[:oobn])
			require.NoError(t, err)
			unixsock.Close(given)
			require.Equal(t, peerMessage(peerAsks, shared), b[:peerHeader])
			require.Equal(t, append(peerMessage(peerAnswers, shared), "answer"...), got[:n])
		}
		select {
		case a := <-l.answers:
			a.drop()
		default:
		}
	})
}

package unixsock_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

func TestDescriptorsTravel(t *testing.T) {
	ours, theirs, err := unixsock.Pair(unix.SOCK_SEQPACKET)
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, unix.Sendmsg(int(theirs.Fd()), []byte{1}, unix.UnixRights(int(r.Fd()), int(w.Fd())), nil, 0))
	require.NoError(t, theirs.Close())

	control := make([]byte, unix.CmsgSpace(4*unixsock.MaxDescriptors))
	_, n, _, _, err := unix.Recvmsg(ours, make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	require.NoError(t, err)
	fds, err := unixsock.Descriptors(control[:n])
	require.NoError(t, err)
	require.Len(t, fds, 2)
	_, err = unix.Write(fds[1], []byte("x"))
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = r.Read(b)
	require.NoError(t, err)
	require.Equal(t, "x", string(b))

	unixsock.Close(append(fds, ours))
	for _, fd := range append(fds, ours) {
		require.ErrorIs(t, unix.Close(fd), unix.EBADF)
	}
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())
}

func TestMalformedControlMessages(t *testing.T) {
	fds, err := unixsock.Descriptors(nil)
	require.NoError(t, err)
	require.Empty(t, fds)
	_, err = unixsock.Descriptors(make([]byte, 24))
	require.Error(t, err)

	// What came before a message of another kind is closed.
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	fd, err := unix.Dup(int(w.Fd()))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	credentials := unix.UnixCredentials(&unix.Ucred{Pid: 1})
	_, err = unixsock.Descriptors(append(unix.UnixRights(fd), credentials...))
	require.Error(t, err)
	n, err := r.Read(make([]byte, 1)) // the end of the pipe, as no writer is left
	require.Zero(t, n)
	require.Error(t, err)
}

func TestConnOfAnythingElse(t *testing.T) {
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	fd, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	_, err = unixsock.Conn(fd)
	require.Error(t, err)
	require.ErrorIs(t, unix.Close(fd), unix.EBADF, "it is closed")

	ours, theirs, err := unixsock.Pair(unix.SOCK_STREAM)
	require.NoError(t, err)
	c, err := unixsock.Conn(ours)
	require.NoError(t, err)
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, theirs.Close())
}

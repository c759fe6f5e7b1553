package peers

import (
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/file"
	"pvdrm/drm"
	"pvdrm/internal/unixsock"
)

// owner lends the memory of some keys, and counts.
type owner struct {
	mu   sync.Mutex
	has  map[drm.Key]file.Loan
	lent map[drm.Key]int
}

func (o *owner) Lend(key drm.Key) (file.Loan, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	loan, ok := o.has[key]
	if !ok {
		return loan, syscall.ENOENT
	}
	o.lent[key]++
	return loan, nil
}

func (o *owner) Recall(key drm.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lent[key]--; o.lent[key] < 0 {
		panic("more comes back than was lent")
	}
}

func (o *owner) out(key drm.Key) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lent[key]
}

func newOwner(keys ...drm.Key) *owner {
	o := &owner{has: map[drm.Key]file.Loan{}, lent: map[drm.Key]int{}}
	for i, k := range keys {
		o.has[k] = file.Loan{Name: uint64(i) + 1, Size: uint64(i+1) << 21}
	}
	return o
}

// pair makes a connected pair.
func pair(t testing.TB) (one, other *os.File) {
	fd, other, err := unixsock.Pair(unix.SOCK_SEQPACKET)
	require.NoError(t, err)
	return os.NewFile(uintptr(fd), "socket"), other
}

// Three backends lend and borrow, all at once, and what one had comes back when it ends.
func TestBackendsLend(t *testing.T) {
	keys := []drm.Key{{1}, {2}, {3}}
	var owners [3]*owner
	var sockets [3]map[int]*os.File
	for i := range sockets {
		owners[i], sockets[i] = newOwner(keys[i]), map[int]*os.File{}
		for j := range i {
			sockets[i][j], sockets[j][i] = pair(t)
		}
	}
	var all [3]*Lines
	for i := range all {
		var err error
		all[i], err = New(sockets[i], owners[i])
		require.NoError(t, err)
	}
	var group sync.WaitGroup
	for i, s := range all {
		group.Go(func() {
			for n := range 100 {
				of := (i + 1 + n%2) % 3
				loan, err := s.Borrow(keys[of])
				if err != nil || loan != (file.Loan{Key: keys[of], Place: of, Name: 1, Size: 2 << 20}) {
					t.Errorf("%d borrowed %+v of %d: %v", i, loan, of, err)
					return
				}
				if n%10 != 0 {
					s.Return(loan)
				}
			}
		})
	}
	group.Wait()
	_, err := all[0].Borrow(drm.Key{9})
	require.ErrorIs(t, err, syscall.ENOENT)
	_, err = all[0].Borrow(keys[0])
	require.ErrorIs(t, err, syscall.ENOENT, "its own is not asked for elsewhere")
	all[1].Close()
	require.Zero(t, owners[1].out(keys[1]), "its own is back, since it has ended")
	_, err = all[0].Borrow(keys[1])
	require.ErrorIs(t, err, syscall.ENOENT)
	loan, err := all[0].Borrow(keys[2])
	require.NoError(t, err)
	require.Equal(t, 2, loan.Place)
	for _, s := range []*Lines{all[0], all[2]} {
		s.Close()
	}
	for i, o := range owners {
		require.Zero(t, o.out(keys[i]))
	}
}

// A backend that breaks the protocol loses its socket and what it had.
func TestHostileBackends(t *testing.T) {
	key := drm.Key{7}
	for name, packets := range map[string][]message{
		"an unknown kind":                {{what: 4}},
		"answers to no questions":        {{what: answers}, {what: answers}},
		"gives back too much":            {{what: asks, key: key}, {what: returns, key: key}, {what: returns, key: key}},
		"gives back what it has not got": {{what: asks, key: key}, {what: returns, key: drm.Key{8}}},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			o := newOwner(key)
			s, err := New(map[int]*os.File{1: ours}, o)
			require.NoError(t, err)
			conn := connOf(t, theirs)
			for _, m := range packets {
				_, _ = conn.Write(m.append(nil)) // it may have ended
			}
			<-s.lines[0].over
			require.Zero(t, o.out(key))
			_, err = s.Borrow(key)
			require.ErrorIs(t, err, syscall.ENOENT)
			require.NoError(t, conn.Close())
			s.Close()
		})
	}
	_, err := New(map[int]*os.File{0: os.NewFile(^uintptr(0)>>1, "none")}, newOwner())
	require.Error(t, err)
}

func connOf(t testing.TB, f *os.File) *net.UnixConn {
	c, err := net.FileConn(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return c.(*net.UnixConn)
}

// FuzzLine sends packets to a backend: whatever comes, no more comes back to the owner than was lent, and all of it.
func FuzzLine(f *testing.F) {
	key := drm.Key{7}
	seed := func(list ...message) {
		var b []byte
		for _, m := range list {
			b = m.append(b)
		}
		f.Add(b)
	}
	seed(message{what: asks, key: key}, message{what: asks, key: key}, message{what: returns, key: key})
	seed(message{what: asks, key: drm.Key{1}}, message{what: returns, key: key})
	seed(message{what: answers, number: 1, key: key, size: 1}, message{what: answers})
	seed(message{what: 9})
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := pair(t)
		o := newOwner(key)
		s, err := New(map[int]*os.File{1: ours}, o)
		require.NoError(t, err)
		conn := connOf(t, theirs)
		read := make(chan struct{})
		go func() { // answers
			defer close(read)
			room := make([]byte, messageBytes)
			for {
				if _, err := conn.Read(room); err != nil {
					return
				}
			}
		}()
		for len(b) > 0 {
			n := min(len(b), messageBytes)
			if _, err := conn.Write(b[:n]); err != nil {
				break
			}
			b = b[n:]
		}
		require.NoError(t, conn.CloseWrite())
		<-s.lines[0].over
		require.Zero(t, o.out(key))
		s.Close()
		<-read
		require.NoError(t, conn.Close())
	})
}

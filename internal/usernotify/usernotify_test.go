package usernotify_test

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/usernotify"
)

// The main thread never ends, so no test may run on it.
func init() { runtime.LockOSThread() }

// trapped starts a thread under a filter that traps openat and ioctls of type 0x46. Functions that it is sent run there.
// The test's goroutine answers the calls.
func trapped(t *testing.T, answer func(l usernotify.Listener, c *usernotify.Call) error) (do func(func())) {
	t.Helper()
	calls, done, installed := make(chan func()), make(chan struct{}), make(chan error)
	var l usernotify.Listener
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		var err error
		l, err = usernotify.Install(usernotify.Calls([]usernotify.Requests{{Mask: 0xffff, Value: 0x4603}, {Mask: 0xfffc, Value: 0x4600}}, unix.SYS_OPENAT), false)
		installed <- err
		for call := range calls {
			call()
			done <- struct{}{}
		}
	}()
	require.NoError(t, <-installed)
	ended := make(chan error)
	go func() {
		for {
			var c usernotify.Call
			came, err := l.Receive(&c, -1)
			if err == nil && came {
				err = answer(l, &c)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(calls)
		require.ErrorIs(t, <-ended, usernotify.ErrEnded)
		require.NoError(t, l.Close())
	})
	return func(f func()) {
		calls <- f
		<-done
	}
}

func TestAnswersAndProceeds(t *testing.T) {
	do := trapped(t, func(l usernotify.Listener, c *usernotify.Call) error {
		if uint32(c.Args[1]) != 0x4602 {
			return l.Answer(c, unix.EDOM)
		}
		return l.Proceed(c)
	})
	var refused, second, untouched, other unix.Errno
	do(func() {
		_, _, refused = unix.RawSyscall(unix.SYS_IOCTL, ^uintptr(0), 0x4601, 0)
		_, _, second = unix.RawSyscall(unix.SYS_IOCTL, ^uintptr(0), 0x4603, 0)
		_, _, untouched = unix.RawSyscall(unix.SYS_IOCTL, ^uintptr(0), 0x4602, 0)
		_, _, other = unix.RawSyscall(unix.SYS_IOCTL, ^uintptr(0), 0x4701, 0)
	})
	require.Equal(t, unix.EDOM, refused)
	require.Equal(t, unix.EDOM, second)
	require.Equal(t, unix.EBADF, untouched)
	require.Equal(t, unix.EBADF, other)
}

// A caller that may open nothing gets a descriptor of ours in place of what it named.
func TestGive(t *testing.T) {
	pipe := [2]int{}
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	given := make(chan int, 1)
	do := trapped(t, func(l usernotify.Listener, c *usernotify.Call) error {
		n, err := l.Give(c, pipe[0])
		given <- n
		return err
	})
	var fd int
	var err error
	do(func() { fd, err = unix.Open("/nothing/there", unix.O_RDONLY, 0) })
	require.NoError(t, err)
	require.Equal(t, <-given, fd)
	require.NoError(t, unix.Close(pipe[0]))
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.Equal(t, unix.FD_CLOEXEC, flags)
	_, err = unix.Write(pipe[1], []byte("x"))
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "given")
	b := make([]byte, 1)
	_, err = f.Read(b)
	require.NoError(t, err)
	require.Equal(t, "x", string(b))
	require.NoError(t, errors.Join(f.Close(), unix.Close(pipe[1])))
}

// Signals, by which Go's runtime stops a goroutine that runs for long, come at any time.
func TestGiveAmidSignals(t *testing.T) {
	pipe := [2]int{}
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	var giver atomic.Int32
	do := trapped(t, func(l usernotify.Listener, c *usernotify.Call) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		giver.Store(int32(unix.Gettid()))
		_, err := l.Give(c, pipe[0])
		return err
	})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if to := giver.Load(); to != 0 {
					_ = unix.Tgkill(unix.Getpid(), int(to), unix.SIGURG)
				}
			}
		}
	}()
	for range 3000 {
		var fd int
		var err error
		do(func() {
			if fd, err = unix.Open("/nothing/there", unix.O_RDONLY, 0); err == nil && fd > 2 {
				err = unix.Close(fd)
			}
		})
		require.NoError(t, err)
		require.Greater(t, fd, 2)
	}
	close(stop)
	<-stopped
	require.NoError(t, errors.Join(unix.Close(pipe[0]), unix.Close(pipe[1])))
}

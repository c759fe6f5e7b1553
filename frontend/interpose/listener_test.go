package interpose

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// While nobody makes a call, Go gets its garbage collected: who waits for one is not in
// its way, nor is it taken for a call that Go wants the thread. Built with go test -c this
// runs in a virtual machine, too (pvdrm up --copy), whose Linux may wait otherwise.
func TestGarbageIsCollectedBetweenCalls(t *testing.T) {
	if err := Available(); err != nil {
		require.Empty(t, os.Getenv("CI"), err)
		t.Skip(err)
	}
	type installed struct {
		l     listener
		quiet bool
		err   error
	}
	started, call, called := make(chan installed), make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // for good: it ends with the goroutine
		l, wakesHere, err := install(filter(false))
		started <- installed{l, quietly(wakesHere), err}
		for range call {
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, ^uintptr(0), uintptr(drm.IoctlVersion), 0)
			called <- errno
		}
	}()
	on := <-started
	require.NoError(t, on.err)
	t.Logf("quiet: %v", on.quiet)
	const calls = 3
	served := make(chan error, calls)
	go func() {
		runtime.LockOSThread()
		for range calls {
			var n notification
			err := on.l.receiveCall(&n, on.quiet)
			if err == nil {
				err = on.l.answer(&response{id: n.id, error: -int32(unix.ENOTTY)})
			}
			served <- err
		}
	}()
	for range calls {
		collected := make(chan struct{})
		go func() {
			defer close(collected)
			for range 20 {
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
		}()
		select {
		case <-collected:
		case <-time.After(time.Minute):
			t.Error("nothing was collected in a minute")
		}
		call <- struct{}{}
		require.Equal(t, unix.ENOTTY, <-called)
		require.NoError(t, <-served)
	}
	close(call)
	require.NoError(t, unix.Close(int(on.l)))
}

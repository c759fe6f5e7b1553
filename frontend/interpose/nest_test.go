package interpose

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Only a thread that makes all calls is followed.
func TestOneThreadIsFollowed(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	me := uint32(unix.Gettid())
	var n nest
	n.came(me)
	for range settled - 1 {
		n.came(me)
		require.EqualValues(t, noCPU, n.cpu.Load())
	}
	n.came(me)
	cpu := n.cpu.Load()
	here := may(t, 0)
	require.True(t, here.IsSet(int(cpu)))
	n.came(me)
	require.Equal(t, cpu, n.cpu.Load())
	n.came(me + 1)
	require.EqualValues(t, noCPU, n.cpu.Load())

	require.EqualValues(t, noCPU, cpuOf(1<<30), "no such thread")
	cpu = cpuOf(os.Getpid())
	require.True(t, here.IsSet(int(cpu)))
}

// A caller is bound while it is woken, and as it was before it and after it.
func TestCallersAreWokenHere(t *testing.T) {
	other, done := make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		other <- unix.Gettid()
		<-done
	}()
	defer close(done)
	caller := <-other
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for good: it is bound, and ends
		before := may(t, caller)
		b := newBird(&nest{})
		for range settled + 1 {
			b.follow(uint32(caller))
		}
		if !assertBound(t, &b, may(t, 0)) {
			return
		}
		woken := 0
		err := b.wake(uint32(caller), func() error {
			woken++
			if !b.lone { // as in machines with a package for each processor
				assertBound(t, &b, may(t, caller))
			}
			return os.ErrClosed
		})
		if err != os.ErrClosed || woken != 1 || may(t, caller) != before {
			t.Errorf("woken %d times, %v; the caller may run on %v, before on %v", woken, err, may(t, caller), before)
		}
		b.follow(uint32(caller) + 1)
		if may(t, 0) != b.all {
			t.Error("the thread is bound still, while several make calls")
		}
	}()
	<-ended

	var none *nest
	b := newBird(none)
	require.Nil(t, b.nest)
	require.NoError(t, b.wake(1, func() error { return nil }))
}

func may(t *testing.T, tid int) (set unix.CPUSet) {
	t.Helper()
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		t.Error(err)
	}
	return set
}

// assertBound is for goroutines other than the test's.
func assertBound(t *testing.T, b *bird, got unix.CPUSet) bool {
	t.Helper()
	if b.at == noCPU || got != only(b.at) {
		t.Errorf("bound to processor %d, may run on %v", b.at, got)
		return false
	}
	return true
}

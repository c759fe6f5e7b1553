package workers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/workers"
)

// open starts a keeper of workers of a role. When the test ends, neither processes nor descriptors
// may be left.
func open(t *testing.T, role string, files int) *workers.Keeper {
	t.Helper()
	return openKeeper(t, workers.Config{Name: "test workers", Command: command(role), Files: files})
}

func openKeeper(t *testing.T, c workers.Config) *workers.Keeper {
	t.Helper()
	before := descriptors(t)
	k, err := workers.NewKeeper(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		pids := append(children(t, k.PID()), k.PID())
		k.Close()
		k.Close() // once more changes nothing
		for _, pid := range pids {
			require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "process %d is left", pid)
		}
		_, _, err := k.Start()
		require.ErrorIs(t, err, workers.ErrKeeper)
		require.Equal(t, before, descriptors(t))
	})
	return k
}

// descriptors are those that this process has open, apart from Go's own.
func descriptors(t *testing.T) (open []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.Contains(to, "eventpoll") && !strings.Contains(to, "eventfd") && !strings.HasPrefix(to, "/proc/") {
			open = append(open, e.Name()+" "+to)
		}
	}
	return open
}

// children are the processes that a process has started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil // it has ended
	}
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(f)
			require.NoError(t, err)
			pids = append(pids, n)
		}
	}
	return pids
}

// say sends a word to an echo and demands it back.
func say(t *testing.T, to, from int) {
	t.Helper()
	_, err := unix.Write(to, []byte("hello"))
	require.NoError(t, err)
	b := make([]byte, 10)
	n, err := unix.Read(from, b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b[:n]))
}

func closeAll(t *testing.T, fds []int) {
	t.Helper()
	for _, fd := range fds {
		require.NoError(t, unix.Close(fd))
	}
}

func TestWorkerServesAndIsKilled(t *testing.T) {
	k := open(t, "keeper:"+roleEcho, 0)
	p, fds, err := k.Start()
	require.NoError(t, err)
	require.Len(t, fds, 1)
	say(t, fds[0], fds[0])
	require.False(t, p.Over())
	p.Kill()
	<-p.Gone()
	require.True(t, p.Over())
	require.EqualError(t, p.Reason(), "signal: killed")
	require.Empty(t, children(t, k.PID()), "it is reaped")
	p.Close()
	p.End() // once more changes nothing
	closeAll(t, fds)

	p, fds, err = k.Start()
	require.NoError(t, err, "the keeper starts another")
	say(t, fds[0], fds[0])
	closeAll(t, fds)
	p.Close() // waits: a worker ends with its socket
	require.EqualError(t, p.Reason(), "exit status 0")
}

func TestFilesOfAWorker(t *testing.T) {
	k := open(t, "keeper:"+rolePipe, 2)
	p, fds, err := k.Start()
	require.NoError(t, err)
	require.Len(t, fds, 3)
	say(t, fds[1], fds[0])
	p.End()
	closeAll(t, fds)
}

func TestWhyAWorkerEnds(t *testing.T) {
	k := open(t, "keeper:"+roleExit, 0)
	p, fds, err := k.Start()
	require.NoError(t, err)
	<-p.Gone()
	require.EqualError(t, p.Reason(), "exit status 3")
	p.Close()
	closeAll(t, fds)
}

func TestWorkerDoesNotStart(t *testing.T) {
	for role, want := range map[string]string{
		"keeper:" + roleNone: "no such file or directory",
		roleUnprepared:       "no equipment",
	} {
		k := open(t, role, 0)
		for range 3 {
			_, _, err := k.Start()
			require.ErrorContains(t, err, want)
			require.Less(t, len(err.Error()), 2000)
		}
	}
}

func TestGuardRefuses(t *testing.T) {
	k := open(t, roleGuarded, 0)
	p, fds, err := k.Start()
	require.NoError(t, err)
	<-p.Gone()
	require.EqualError(t, p.Reason(), "signal: killed")
	p.Close()
	closeAll(t, fds)
}

func TestMostWorkersAtOnce(t *testing.T) {
	k := open(t, roleTwo, 0)
	for range 3 { // what has ended makes room
		a, aFDs, err := k.Start()
		require.NoError(t, err)
		b, bFDs, err := k.Start()
		require.NoError(t, err)
		_, _, err = k.Start()
		require.ErrorContains(t, err, "2 processes run")
		a.End()
		b.End()
		closeAll(t, append(aFDs, bFDs...))
	}
}

func TestNoKeeper(t *testing.T) {
	before := descriptors(t)
	_, err := workers.NewKeeper(workers.Config{Name: "test workers", Command: []string{"/nonexistent"}})
	require.ErrorContains(t, err, "starting the keeper of test workers")
	require.Equal(t, before, descriptors(t))
	k := openKeeper(t, workers.Config{Name: "test workers", Command: []string{"/bin/false"}})
	_, _, err = k.Start()
	require.ErrorContains(t, err, "the keeper of test workers has ended")
}

// Workers end with their keeper, and so does all that waits.
func TestKeeperIsKilled(t *testing.T) {
	k := open(t, "keeper:"+roleEcho, 0)
	var running []*workers.Process
	for range 3 {
		p, fds, err := k.Start()
		require.NoError(t, err)
		running = append(running, p)
		defer closeAll(t, fds)
	}
	pids := children(t, k.PID())
	require.Len(t, pids, 3)
	require.NoError(t, unix.Kill(k.PID(), unix.SIGKILL))
	for _, p := range running {
		<-p.Gone()
		require.ErrorIs(t, p.Reason(), workers.ErrKeeper)
		p.Close()
	}
	_, _, err := k.Start()
	require.ErrorIs(t, err, workers.ErrKeeper)
}

// A keeper whose backend has gone ends its workers, also those that ignore the end of their socket.
func TestCloseEndsWorkers(t *testing.T) {
	k := open(t, "keeper:"+roleEcho, 0)
	p, fds, err := k.Start()
	require.NoError(t, err)
	k.Close()
	require.True(t, p.Over())
	p.Kill() // too late, and harmless
	p.Close()
	closeAll(t, fds)
}

// What a keeper starts too late is killed, and leaves nothing.
func TestKeeperThatIsSlow(t *testing.T) {
	on := filepath.Join(t.TempDir(), "on")
	k := openKeeper(t, workers.Config{Name: "test workers", Command: command(roleSlow + on), Limit: time.Second})
	p, fds, err := k.Start()
	require.ErrorContains(t, err, "did not start one within 1s")
	require.NoError(t, os.WriteFile(on, nil, 0o600))
	for err != nil { // the keeper takes orders in turn
		p, fds, err = k.Start()
	}
	p.End()
	closeAll(t, fds)
	require.Eventually(t, func() bool { return len(children(t, k.PID())) == 0 }, 5*time.Minute, time.Millisecond)
}

func TestHostileKeepers(t *testing.T) {
	for _, attack := range workers.Attacks() {
		t.Run(attack, func(t *testing.T) {
			k := open(t, roleHostile+attack, 1)
			_, _, err := k.Start()
			require.ErrorIs(t, err, workers.ErrKeeper)
		})
	}
}

func TestManyWorkersAtOnce(t *testing.T) {
	k := open(t, "keeper:"+rolePipe, 2)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 3 {
				p, fds, err := k.Start()
				if err != nil {
					t.Error(err)
					return
				}
				if i%2 == 0 {
					say(t, fds[1], fds[0])
				}
				all.Go(p.Kill)
				p.End()
				closeAll(t, fds)
			}
		})
	}
	all.Wait()
}

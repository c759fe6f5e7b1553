package escape

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sandbox"
	"pvdrm/backend/sched"
	"pvdrm/tests/escape/inject"
)

// endless is a guest's program that computes, and checks what it computed, until it is
// stopped.
var endless = []string{"--", "gdev", "run", "--json", "--repeat", "1000000", "madd"}

// shares are those of the guests of an arbiter.
func shares(t testing.TB, socket string) map[string]sched.Share {
	t.Helper()
	answer, err := arbiter.Ask(t.Context(), socket+arbiter.ControlSuffix, arbiter.Command{})
	require.NoError(t, err)
	require.Empty(t, answer.Error)
	all := map[string]sched.Share{}
	for _, g := range answer.GPUs[0].Guests {
		all[g.Name] = g.Share
	}
	return all
}

// One guest's backend is given to an attacker, who then does to the arbiter, and to
// what pvdrm started, what can be done by the descriptors and the memory that the
// backend shares with them. Another guest notices nothing.
func TestTakenOverBackendBesideAnother(t *testing.T) {
	needsPtrace(t)
	dir := runDir(t)
	socket := filepath.Join(dir, "arbiter")
	a := start(t, dir, "arbiter", "--socket", socket, "--log", "info")
	a.waitFor(t, "waiting for backends")
	attacker := start(t, dir, append([]string{"run", "--arbiter", socket, "--wait-for-arbiter", "--guest", "attacker", "--weight", "1"}, endless...)...)
	victim := start(t, dir, append([]string{"run", "--arbiter", socket, "--wait-for-arbiter", "--guest", "victim", "--weight", "3", "--cap", "90"}, endless...)...)
	for _, c := range []*command{attacker, victim} {
		c.waitFor(t, `"verified":true`)
	}
	before := shares(t, socket)
	require.Contains(t, before, "victim")
	pid := attacker.process(t, sandbox.Backend)
	host := hostFor(t, a.Process.Pid, victim.Process.Pid, victim.process(t, sandbox.Backend), attacker.Process.Pid)
	require.Contains(t, host.Sockets, socket+arbiter.ControlSuffix)
	attack(t, pid, sandbox.Backend, host)

	thread, err := inject.Stop(pid)
	require.NoError(t, err)
	scribbled := scribble(t, pid)
	sent, ended := babble(t, thread)
	if err := thread.Resume(); !ended {
		require.NoError(t, err)
	}
	require.NotZero(t, sent, "the backend has no socket that takes anything")
	require.NotZero(t, scribbled, "the backend shares no page with the arbiter")

	victim.requireGoesOn(t)
	after := shares(t, socket)
	require.Equal(t, before["victim"], after["victim"])
	for name, share := range after {
		require.Contains(t, before, name, "a guest has come")
		require.Equal(t, before[name], share)
	}
	require.NoError(t, victim.Process.Signal(unix.SIGTERM))
	<-victim.ended
}

// scribble writes noise over the page that a backend shares with its arbiter.
func scribble(t *testing.T, pid int) (bytes int) {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	defer func() { require.NoError(t, maps.Close()) }()
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, mem.Close()) }()
	rng := rand.New(rand.NewPCG(1, 2))
	for s := bufio.NewScanner(maps); s.Scan(); {
		if !strings.Contains(s.Text(), "/memfd:pvdrm-arbiter") || !strings.Contains(s.Text(), " rw-s ") {
			continue
		}
		from, rest, _ := strings.Cut(s.Text(), "-")
		to, _, _ := strings.Cut(rest, " ")
		start, err := strconv.ParseInt(from, 16, 64)
		require.NoError(t, err)
		end, err := strconv.ParseInt(to, 16, 64)
		require.NoError(t, err)
		noise := make([]byte, end-start)
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		n, err := mem.WriteAt(noise, start)
		require.NoError(t, err)
		bytes += n
	}
	return bytes
}

// babble sends noise on each socket of a backend: the arbiter's, those of its keepers,
// and its parent's, which may end it. It returns how many messages were taken.
func babble(t *testing.T, thread *inject.Thread) (sent int, ended bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	addr, err := thread.Put(noise)
	require.NoError(t, err)
	for fd := range uintptr(mostDescriptors) {
		for _, size := range []uintptr{1, 8, 32, 128, 4096} {
			// The parent's is one of the first.
			_, errno, err := thread.Call(unix.SYS_SENDTO, mostDescriptors-1-fd, addr, size, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
			var end *inject.EndedError
			if errors.As(err, &end) {
				return sent, true
			}
			require.NoError(t, err)
			if errno == 0 {
				sent++
			}
		}
	}
	return sent, false
}

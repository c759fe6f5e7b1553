package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sched"
)

// startedArbiter starts an arbiter that ends with the test.
func startedArbiter(t *testing.T, f arbiterFlags) {
	t.Helper()
	a, err := f.start(t.Context(), zap.NewNop(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.stop()) })
}

// arbiterDir is a directory whose name is short enough for sockets.
func arbiterDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pvdrm-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// With a roster, guests are what it lists, by their keys; the control socket is where it was asked for.
func TestArbiterRoster(t *testing.T) {
	dir := arbiterDir(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, arbiter.WriteNewKey(path("key")))
	write := func(users string) {
		require.NoError(t, os.WriteFile(path("roster"), []byte("[[guest]]\nname = \"web\"\nkey-file = \"key\"\nweight = 7\n"+users), 0o600))
	}
	write("")
	f := arbiterFlags{socket: path("s"), control: path("c"), roster: path("roster"), policy: arbiter.DefaultPolicy, perUser: 1}
	require.NoError(t, os.Chmod(f.roster, 0o644))
	_, err := f.start(t.Context(), zap.NewNop(), nil)
	require.ErrorContains(t, err, "chmod 600 "+f.roster)
	require.NoError(t, os.Chmod(f.roster, 0o600))

	startedArbiter(t, f)
	taking := arbiter.Taking{Socket: f.socket, Hello: arbiter.Hello{Name: "web", Share: sched.Share{Weight: 1000}}}
	_, err = taking.Connect()
	require.ErrorIs(t, err, unix.EACCES)
	taking.Hello.Key, err = arbiter.ReadKey(path("key"))
	require.NoError(t, err)
	seat, err := taking.Connect()
	require.NoError(t, err)
	defer func() { require.NoError(t, seat.Close()) }()
	require.NoFileExists(t, f.socket+arbiter.ControlSuffix)
	answer, err := arbiter.Ask(t.Context(), f.control, arbiter.Command{})
	require.NoError(t, err)
	require.Equal(t, uint32(7), answer.GPUs[0].Guests[0].Share.Weight)

	mode := func(path string) os.FileMode {
		st, err := os.Stat(path)
		require.NoError(t, err)
		return st.Mode().Perm()
	}
	require.Equal(t, os.FileMode(0o600), mode(f.socket))
	require.Equal(t, os.FileMode(0o600), mode(f.control))

	write(fmt.Sprintf("users = [%d]\n", os.Getuid()+1))
	shared := f
	shared.socket, shared.control = path("shared"), ""
	startedArbiter(t, shared)
	require.Equal(t, os.FileMode(0o666), mode(shared.socket), "others are listed")
	require.Equal(t, os.FileMode(0o600), mode(shared.socket+arbiter.ControlSuffix))
	taking.Socket = shared.socket
	_, err = taking.Connect()
	require.ErrorIs(t, err, unix.EACCES, "we are not, any more")
}

// The flag sets the limit of guests.
func TestArbiterGuestsPerUser(t *testing.T) {
	f := arbiterFlags{socket: filepath.Join(arbiterDir(t), "s"), policy: arbiter.DefaultPolicy, perUser: 1}
	startedArbiter(t, f)
	taking := arbiter.Taking{Socket: f.socket, Hello: arbiter.Hello{Name: "a"}}
	seat, err := taking.Connect()
	require.NoError(t, err)
	defer func() { require.NoError(t, seat.Close()) }()
	taking.Hello.Name = "b"
	_, err = taking.Connect()
	require.ErrorIs(t, err, unix.ENOSPC)
}

// What --policy names may have a slice and :whole behind it. What is neither stays in the name, which no policy has.
func TestPolicyOf(t *testing.T) {
	for name, want := range map[string]arbiter.GPU{
		"band":           {Policy: "band"},
		"band:whole":     {Policy: "band", Settings: sched.Settings{Preempt: sched.NoWait}},
		"wfq:10ms":       {Policy: "wfq", Settings: sched.Settings{Slice: 10 * time.Millisecond, Preempt: 10 * time.Millisecond}},
		"wfq:10ms:whole": {Policy: "wfq", Settings: sched.Settings{Slice: 10 * time.Millisecond, Preempt: sched.NoWait}},
		"wfq:fast":       {Policy: "wfq:fast"},
		"wfq:-1s":        {Policy: "wfq:-1s"},
	} {
		require.Equal(t, want, policyOf(name), name)
	}
}

// The number of processors reaches the GPU that is arbitrated: with one, no kernel runs beside another.
func TestArbiterProcessors(t *testing.T) {
	f := arbiterFlags{policy: arbiter.DefaultPolicy, perUser: 2, processors: -1}
	require.ErrorAs(t, f.serve(t.Context(), zap.NewNop()), new(usageError))
	for processors, beside := range map[int]bool{1: false, 8: true} {
		f := arbiterFlags{socket: filepath.Join(arbiterDir(t), "s"), policy: arbiter.DefaultPolicy, perUser: 2, processors: processors}
		startedArbiter(t, f)
		gate := func(name string) *arbiter.Gate {
			g, err := arbiter.Join(arbiter.GateConfig{Connect: arbiter.Taking{Socket: f.socket, Hello: arbiter.Hello{Name: name}}.Connect})
			require.NoError(t, err)
			t.Cleanup(g.Close)
			return g
		}
		a, b := gate("a"), gate("b")
		if granted := a.EnterPart(arbiter.Compute, 1, 1); granted != nil {
			<-granted
		}
		granted := b.EnterPart(arbiter.Compute, 1, 1)
		require.NotNil(t, granted)
		if beside {
			<-granted
			b.Leave(arbiter.Compute, 0, 1, false)
			a.Leave(arbiter.Compute, 0, 1, false)
			continue
		}
		select {
		case <-granted:
			require.Fail(t, "both run")
		case <-time.After(20 * time.Millisecond):
		}
		a.Leave(arbiter.Compute, 0, 1, false)
		<-granted
		b.Leave(arbiter.Compute, 0, 1, false)
	}
}

package tests

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	stressRounds = flag.Int("stress-rounds", 40, "how many processes TestKilledAtAnyTime kills (make stress: 200)")
	stressSeed   = flag.Uint64("stress-seed", uint64(time.Now().UnixNano()), "which, and when")
)

// group is the processes of one guest, by the directory of their sockets.
type group struct {
	t   *testing.T
	dir string
	rng *rand.Rand
}

// descendants lists the processes that a process started, with those that they did.
func descendants(pid int) (all []int) {
	for _, child := range children(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

// children lists the processes that a process started itself.
func children(pid int) (all []int) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		list, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended
		}
		for _, f := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// mentions lists the processes in whose command line or environment text stands.
func mentions(text string) (all []string) {
	procs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, p := range procs {
		line, err := os.ReadFile(p + "/cmdline")
		env, err2 := os.ReadFile(p + "/environ")
		if err != nil || err2 != nil || filepath.Base(p) == strconv.Itoa(os.Getpid()) {
			continue // it has ended, or is this one
		}
		if bytes.Contains(line, []byte(text)) || bytes.Contains(env, []byte(text)) {
			all = append(all, p+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return all
}

// descriptors counts the open files of a process.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	return len(list)
}

// usedVRAM is what a guest has of its device's memory, in bytes.
func usedVRAM(t *testing.T, c *command) uint64 {
	t.Helper()
	code, out := startIn(t, c.runDir, "stats", "--json").wait(t)
	require.Zero(t, code, out)
	var st struct {
		Device struct {
			VRAMUsed uint64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &st), out)
	require.NotZero(t, st.Device.VRAMUsed, out)
	return st.Device.VRAMUsed
}

// kill starts a guest, and kills it or one of its processes at some time of its life.
func (g *group) kill(life time.Duration, args ...string) {
	c := startIn(g.t, g.dir, args...)
	time.Sleep(time.Duration(g.rng.Int64N(int64(life))))
	victims := []int{c.Process.Pid}
	own, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.Process.Pid)) // it may have ended by itself
	for _, pid := range descendants(c.Process.Pid) {
		// A child that runs no program of its own, or has ended, may be one by which Go's os
		// package tries what the kernel can do: nobody would notice its end.
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(line) > 0 && !bytes.Equal(line, own) {
			victims = append(victims, pid)
		}
	}
	victim := victims[g.rng.IntN(len(victims))]
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", victim)) // as above
	_ = syscall.Kill(victim, syscall.SIGKILL)                       // as above
	if bytes.Contains(line, []byte("\x00virgl-")) {
		// A guest that loses what renders for it goes on; this one does not render.
		time.Sleep(time.Duration(g.rng.Int64N(int64(50 * time.Millisecond))))
		_ = c.Process.Kill() // as above
	}
	// Whatever it was, the others notice and end.
	select {
	case <-c.ended:
	case <-time.After(patience):
		require.Fail(g.t, "it does not end", "%v\n%s", args, c.output())
	}
}

// Processes of guests, and the arbiter, are killed at any time of their lives.
// Another guest does not notice, and nothing is left of them.
func TestKilledAtAnyTime(t *testing.T) {
	t.Logf("repeat with -stress-seed %d", *stressSeed)
	rng := rand.New(rand.NewPCG(*stressSeed, 0))
	_, err := guestImage() // so that no time of a guest's life is spent on building it
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "pvdrm-stress-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "arbiter")
	startArbiter := func() *command {
		c := startIn(t, dir, "arbiter", "--socket", socket, "--log", "info")
		c.waitFor(t, "waiting for backends")
		return c
	}
	arbiter := startArbiter()
	survivor := start(t, "run", "--arbiter", socket, "--guest", "survivor", "--", "gdev", "run", "--json", "--repeat", "1000000", "madd")
	survivor.waitFor(t, `"verified":true`)
	arbiterFiles, survivorFiles := descriptors(t, arbiter.Process.Pid), descriptors(t, survivor.Process.Pid)
	vram := usedVRAM(t, survivor)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "guests"), 0o700))
	guests := &group{t, filepath.Join(dir, "guests"), rng}
	const machines, arbiters = 10, 10 // one of so many rounds
	for round := range *stressRounds {
		name := fmt.Sprintf("guest-%d", round)
		switch {
		case round%machines == machines/2:
			guests.kill(4*time.Second, "up", "--arbiter", socket, "--guest", name, "--memory", "256", "--", "gdev", "run", "--repeat", "1000", "madd", "cpy")
		case round%arbiters == 0:
			require.NoError(t, arbiter.Process.Kill())
			<-arbiter.ended
			time.Sleep(time.Duration(rng.Int64N(int64(50 * time.Millisecond))))
			arbiter = startArbiter()
		default:
			guests.kill(150*time.Millisecond, "run", "--arbiter", socket, "--guest", name, "--", "gdev", "run", "--repeat", "1000", "madd", "cpy", "srad2")
		}
	}
	before := strings.Count(survivor.output(), `"verified":true`)
	require.Eventually(t, func() bool { return strings.Count(survivor.output(), `"verified":true`) > before+2 }, patience, 10*time.Millisecond,
		"the survivor does not go on")
	require.NotContains(t, survivor.output(), `"verified":false`)
	// A run cleans up what those before it could not; it leaves nothing itself.
	last := startIn(t, guests.dir, "run", "--arbiter", socket, "--", "gdev", "run", "--json", "madd")
	code, out := last.wait(t)
	require.Zero(t, code, out)
	last.requireNothingLeft(t)
	require.Eventually(t, func() bool { return len(mentions(guests.dir)) == 0 }, patience, 50*time.Millisecond, "processes are left: %v", mentions(guests.dir))
	require.Eventually(t, func() bool {
		return descriptors(t, arbiter.Process.Pid) <= arbiterFiles && descriptors(t, survivor.Process.Pid) <= survivorFiles
	}, patience, 50*time.Millisecond, "the arbiter had %d descriptors, the survivor %d; they have more", arbiterFiles, survivorFiles)
	// What the dead had of the GPU's memory was that of their processes; the arbiter
	// knows of the survivor only, and that has as much as before.
	require.Eventually(t, func() bool {
		code, out := startIn(t, dir, "arbiter", "--socket", socket, "stats", "--json").wait(t)
		return code == 0 && strings.Count(out, `"Name":`) == 1 && strings.Contains(out, `"Name":"survivor"`)
	}, patience, 50*time.Millisecond, "the arbiter knows of others")
	require.Eventually(t, func() bool { return usedVRAM(t, survivor) <= vram }, patience, 50*time.Millisecond, "it had %d bytes of VRAM", vram)
	require.NoError(t, survivor.Process.Signal(syscall.SIGTERM))
	<-survivor.ended
	survivor.requireNothingLeft(t)
}

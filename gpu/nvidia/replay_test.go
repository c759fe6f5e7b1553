package nvidia_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// wantedGate admits at once and says that others wait.
type wantedGate struct{}

func (wantedGate) Enter(gpu.Engine, bool) <-chan struct{}        { return nil }
func (wantedGate) Cancel(gpu.Engine)                             {}
func (wantedGate) Wanted(gpu.Engine) bool                        { return true }
func (wantedGate) Alone(gpu.Engine) bool                         { return false }
func (wantedGate) Turn(gpu.Engine) bool                          { return false }
func (wantedGate) Revoked(gpu.Engine, time.Duration) bool        { return false }
func (wantedGate) Preempted(gpu.Engine) bool                     { return false }
func (wantedGate) Charge(gpu.Engine, time.Duration, uint64)      {}
func (wantedGate) Leave(gpu.Engine, time.Duration, uint64, bool) {}

// hangGate says that others wait while a task hangs.
type hangGate struct {
	wantedGate
	hangs atomic.Pointer[func() bool] // nil: none does
}

// Wanted is part of gpu.Gate.
func (g *hangGate) Wanted(gpu.Engine) bool {
	hangs := g.hangs.Load()
	return hangs != nil && (*hangs)()
}

// granted maps pages of the host and returns them with their address.
func (c *fakeClient) granted(size int) ([]byte, uint64) {
	region, err := hostmem.New(uint64(size))
	require.NoError(c, err)
	c.Cleanup(region.Release)
	m, err := c.ctx.NewSystem([][]byte{region.Bytes()})
	require.NoError(c, err)
	va := c.props.System.Base
	require.NoError(c, c.ctx.Map(va, m, 0, uint64(size), gpu.ProtRead|gpu.ProtWrite))
	return region.Bytes(), va
}

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// once is a task: it brings a word to VRAM, runs a kernel that dies or hangs the
// first time, and brings the word back.
func (c *fakeClient) once(system, vram uint64, hang bool) []gpu.Command {
	flag := byte(0)
	if hang {
		flag = 1
	}
	return []gpu.Command{
		&gpu.Task{},
		&gpu.Copy{Dst: vram, Src: system + 4096, Width: 8, Height: 1},
		c.launch("once", append(words(system), flag, 0, 0, 0)...),
		&gpu.Copy{Dst: system + 8192, Src: vram, Width: 8, Height: 1},
	}
}

func TestTaskIsRunAgain(t *testing.T) {
	for name, hang := range map[string]bool{"worker died": false, "others waited": true} {
		t.Run(name, func(t *testing.T) {
			gate, config := &hangGate{}, nvidia.Config{}
			if hang {
				config = nvidia.Config{Gate: gate, RevokeAfter: time.Millisecond}
			}
			c := newFakeClient(t, config)
			mem, system := c.granted(3 * 4096)
			vram := c.vram()
			other, err := c.ctx.NewChannel()
			require.NoError(t, err)
			for round := range 3 {
				clear(mem[:4])
				copy(mem[4096:], "round "+strconv.Itoa(round))
				// The kernel writes down that it hangs; what replaces it is left alone.
				hangs := func() bool { return hang && mem[0] != 0 && c.dev.Stats().Replays == uint64(round) }
				gate.hangs.Store(&hangs)
				results := make(chan gpu.Result, 3)
				done := func(r gpu.Result) { results <- r }
				require.NoError(t, c.ch.Submit(c.once(system, vram, hang), done))
				require.NoError(t, c.ch.Submit(c.once(system, vram, hang), done))
				require.NoError(t, c.ch.Submit(nil, done))
				for range 3 {
					require.NoError(t, (<-results).Err)
				}
				require.Equal(t, "round "+strconv.Itoa(round), string(mem[8192:][:7]))
				require.Equal(t, uint64(round+1), c.dev.Stats().Replays)
			}
			require.Zero(t, c.dev.Stats().Faults)
			require.NoError(t, other.Close())
			// What is no task needs what the worker has.
			clear(mem[:4])
			r := c.do(c.once(system, vram, false)[1:]...)
			var lost *gpu.LostError
			require.ErrorAs(t, r.Err, &lost)
			require.Equal(t, gpu.LostDevice, lost.Cause)
		})
	}
}

// While a context of tasks is idle its worker may go; calls and tasks that come then
// find another one.
func TestIdleContextOfTasksSurvives(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	mem, system := c.granted(3 * 4096)
	vram := c.vram()
	copy(mem, []byte{1})
	for round := range 3 {
		copy(mem[4096:], "round "+strconv.Itoa(round))
		require.NoError(t, c.do(c.once(system, vram, false)...).Err)
		require.Equal(t, "round "+strconv.Itoa(round), string(mem[8192:][:7]))
		require.NoError(t, unix.Kill(workerOf(t), unix.SIGKILL))
		m, err := c.ctx.NewVRAM(c.props.VRAM.Page)
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
	require.Equal(t, uint64(3), c.dev.Stats().Replays)
}

// keeperOf finds the only keeper of this process, workerOf its only worker of a context, and
// compilerOf its worker that compiles.
func keeperOf(t *testing.T) int { return onlyChild(t, os.Getpid(), "") }

func workerOf(t *testing.T) int { return onlyChild(t, keeperOf(t), "cuda-worker") }

func compilerOf(t *testing.T) (pid int) { return onlyChild(t, keeperOf(t), "cuda-compiler") }

// onlyChild finds the only child of a name, or at all.
func onlyChild(t *testing.T, of int, name string) int {
	t.Helper()
	require.Eventually(t, func() bool { return len(children(t, of, name)) == 1 }, 5*time.Minute, time.Millisecond)
	return children(t, of, name)[0]
}

func children(t *testing.T, of int, name string) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", of))
	require.NoError(t, err)
	for _, task := range tasks {
		list, _ := os.ReadFile(task) // may be of a thread that has ended
		for _, id := range strings.Fields(string(list)) {
			pid, err := strconv.Atoi(id)
			require.NoError(t, err)
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // likewise
			if name == "" || strings.TrimSpace(string(comm)) == name {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// A task that always hangs, or always kills its worker, does not go on for ever.
func TestHopelessTask(t *testing.T) {
	for _, test := range []struct {
		kernel  string
		limit   time.Duration // zero: one that a busy machine does not reach
		want    gpu.LostCause
		replays uint64
	}{{kernel: "spin", limit: 200 * time.Millisecond, want: gpu.LostTimeout, replays: 3}, {kernel: "dies", want: gpu.LostDevice, replays: 4}} {
		c := newFakeClient(t, nvidia.Config{Gate: wantedGate{}, RevokeAfter: 20 * time.Millisecond, LaunchLimit: test.limit})
		r := c.do(&gpu.Task{}, c.launch(test.kernel))
		var lost *gpu.LostError
		require.ErrorAs(t, r.Err, &lost)
		require.Equal(t, test.want, lost.Cause, "%v", lost)
		require.Equal(t, 1, r.Index)
		require.Equal(t, test.replays, c.dev.Stats().Replays)
		require.NoError(t, c.ctx.Close())
	}
}

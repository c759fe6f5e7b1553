package nvidia_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// countSource counts in granted memory until told to stop.
const countSource = `.version 6.0
.target sm_50
.address_size 64
.visible .entry count(.param .u64 p)
{
	.reg .u64 %a<2>;
	.reg .u32 %s;
	.reg .pred %q;
	ld.param.u64 %a0, [p];
	mov.u64 %a1, 0;
again:
	add.u64 %a1, %a1, 1;
	st.volatile.global.u64 [%a0], %a1;
	ld.volatile.global.u32 %s, [%a0+64];
	setp.eq.u32 %q, %s, 0;
	@%q bra again;
	ret;
}
`

// TestTakenOverWorker gives a worker the handles of another's client, channels, groups of them and
// memory, and has it try to stop, preempt, free, duplicate, map, read and share what they stand
// for (testdata/rmattack.c). Workers are started as by pvdrm, without capabilities.
func TestTakenOverWorker(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make workers of two users")
	}
	dir, err := os.MkdirTemp("", "pvdrm-rmattack-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	lib := filepath.Join(dir, "rmattack.so")
	if out, err := exec.Command("gcc", "-O1", "-shared", "-fPIC", "-o", lib, "testdata/rmattack.c", "-ldl", "-lpthread").CombinedOutput(); err != nil {
		t.Skipf("needs a C compiler: %v: %s", err, out)
	}
	program := filepath.Join(dir, "worker") // where every user finds it
	text, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, text, 0o755))
	t.Setenv(programEnv, program)
	for _, kind := range []string{freeWorker, realWorker} {
		for _, user := range []int{0, 65534} {
			t.Run(fmt.Sprintf("%s/user %d", kind, user), func(t *testing.T) { takenOver(t, kind, lib, user) })
		}
	}
}

// victim is a context with a kernel that counts, and memory with a pattern.
type victim struct {
	*testing.T
	ctx  gpu.Context
	ch   gpu.Channel
	mem  []byte
	rest uint64 // address of the granted memory behind the counter's page
	vram uint64
	page uint64
}

// The victim's memory: more pages, and so handles, than the attacker has.
const (
	victimPages  = 256
	patternBytes = 4096 // at the start of each
)

func newVictim(t *testing.T, lib string) (*victim, string) {
	dev, ctx, dir := attackDevice(t, freeWorker, lib, 0)
	p := dev.Properties()
	v := &victim{T: t, ctx: ctx, rest: p.System.Base + 4096, vram: p.VRAM.Base, page: p.VRAM.Page}
	region, err := hostmem.New(2 * 4096)
	require.NoError(t, err)
	t.Cleanup(region.Release)
	v.mem = region.Bytes()
	const rw = gpu.ProtRead | gpu.ProtWrite
	sys, err := ctx.NewSystem([][]byte{v.mem})
	require.NoError(t, err)
	require.NoError(t, ctx.Map(p.System.Base, sys, 0, sys.Size(), rw))
	mem, err := ctx.NewVRAM(victimPages * p.VRAM.Page)
	require.NoError(t, err)
	require.NoError(t, ctx.Map(v.vram, mem, 0, mem.Size(), rw))
	v.ch, err = ctx.NewChannel()
	require.NoError(t, err)
	require.NoError(t, v.do(&gpu.Fill{Dst: v.vram, Pattern: 0x5a, Size: 1, Width: patternBytes, Height: victimPages, Pitch: p.VRAM.Page}))
	mod, err := ctx.LoadModule(context.Background(), "count.ptx", []byte(countSource), nil)
	require.NoError(t, err)
	f, err := mod.Function("count")
	require.NoError(t, err)
	require.NoError(t, v.ch.Submit([]gpu.Command{&gpu.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Params: binary.LittleEndian.AppendUint64(nil, p.System.Base)}}, func(gpu.Result) {}))
	require.Eventually(t, v.counts, 5*time.Minute, time.Millisecond)
	return v, dir
}

func (v *victim) do(cmds ...gpu.Command) error {
	done := make(chan gpu.Result, 1)
	require.NoError(v, v.ch.Submit(cmds, func(r gpu.Result) { done <- r }))
	return (<-done).Err
}

// counts reports whether the kernel gets on within a while that is longer than any turn.
func (v *victim) counts() bool {
	before := hostmem.LoadUint32(v.mem, 0)
	time.Sleep(300 * time.Millisecond)
	return hostmem.LoadUint32(v.mem, 0) != before
}

// intact ends the kernel and looks at the memory.
func (v *victim) intact() {
	binary.LittleEndian.PutUint32(v.mem[64:], 1)
	for i := range uint64(victimPages) {
		require.NoError(v, v.do(&gpu.Copy{Dst: v.rest, Src: v.vram + i*v.page, Width: patternBytes, Height: 1}))
		require.Equal(v, slices.Repeat([]byte{0x5a}, patternBytes), v.mem[4096:][:patternBytes])
	}
	require.NoError(v, v.ctx.Err())
}

// fifos is how many pairs of FIFOs the attacking library may use, by its process's id.
const fifos = 64

// attackDevice makes a device with workers that have the library, and a context.
func attackDevice(t *testing.T, kind, lib string, user int) (gpu.Device, gpu.Context, string) {
	dir := t.TempDir()
	for at := dir; at != os.TempDir(); at = filepath.Dir(at) {
		require.NoError(t, os.Chmod(at, 0o777))
	}
	for n := range fifos {
		for _, name := range []string{"attack", "results"} {
			path := filepath.Join(dir, fmt.Sprint(name, ".", n))
			require.NoError(t, unix.Mkfifo(path, 0o666))
			require.NoError(t, os.Chmod(path, 0o666))
		}
	}
	command := []string{"/usr/bin/setpriv", fmt.Sprintf("--reuid=%d", user), fmt.Sprintf("--regid=%d", user), "--clear-groups",
		"--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "/usr/bin/env", "LD_PRELOAD=" + lib, "RMATTACK=" + dir}
	dev, err := nvidia.New(nvidia.Config{LaunchLimit: 5 * time.Minute, Keeper: append(command, keeperCommand(kind)...)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	ctx, err := dev.NewContext("attack")
	require.NoError(t, err)
	return dev, ctx, dir
}

// workerIn is the process of the context whose library wrote to a directory.
func workerIn(t *testing.T, dir string) (pid int) {
	files, err := filepath.Glob(filepath.Join(dir, "handles.*"))
	require.NoError(t, err)
	for _, f := range files {
		id := strings.TrimPrefix(filepath.Ext(f), ".")
		if name, _ := os.ReadFile("/proc/" + id + "/comm"); strings.TrimSpace(string(name)) == "cuda-worker" {
			pid, err = strconv.Atoi(id)
			require.NoError(t, err)
		}
	}
	require.NotZero(t, pid)
	return pid
}

// harmless are attempts that the driver says yes to and that give nothing.
var harmless = map[string]bool{
	// The driver answers the same for handles that no client has; the victim's memory is looked at afterwards.
	"free memory, by our client": true,
	// The default address space of the other's device. libcuda makes another one for its
	// contexts, and what maps something in an address space is refused by the filter.
	"make a device that shares its default address space": true,
	"have a handle of that address space":                 true,
	// Only with the same user, and without controls it can neither be set up nor read.
	"make a profiler of it": true,
}

func takenOver(t *testing.T, kind, lib string, user int) {
	v, dir := newVictim(t, lib)
	handles, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("handles.", workerIn(t, dir))))
	require.NoError(t, err)
	dev, ctx, dir := attackDevice(t, kind, lib, user)
	page, err := ctx.NewVRAM(dev.Properties().VRAM.Page) // memory of its own, to compare
	require.NoError(t, err)
	require.NoError(t, ctx.Map(dev.Properties().VRAM.Base, page, 0, page.Size(), gpu.ProtRead|gpu.ProtWrite))
	pair := workerIn(t, dir) % fifos
	fifo, err := os.OpenFile(filepath.Join(dir, fmt.Sprint("attack.", pair)), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = fifo.Write(append(handles, "go\n"...))
	require.NoError(t, err)
	require.NoError(t, fifo.Close())

	results, err := os.OpenFile(filepath.Join(dir, fmt.Sprint("results.", pair)), os.O_RDWR, 0) // O_RDWR, so that open does not wait for a writer
	require.NoError(t, err)
	defer func() { require.NoError(t, results.Close()) }()
	require.NoError(t, results.SetReadDeadline(time.Now().Add(5*time.Minute)))
	worked := 0
	for lines := bufio.NewScanner(results); ; {
		require.True(t, lines.Scan(), "the worker says no more: %v", lines.Err())
		t.Log(lines.Text())
		if lines.Text() == "done" {
			break
		}
		f := strings.Split(lines.Text(), "\t")
		if f[0] == "note" && f[1] == "stopped" {
			t.Logf("meanwhile the other's kernel counts: %t", v.counts())
		}
		require.NotEqual(t, "error", f[0])
		if len(f) != 3 || f[2] != "status 0x0" {
			continue
		}
		switch {
		case f[0] == "own" && kind == realWorker && strings.HasPrefix(f[1], "make a c"):
			t.Errorf("succeeded: %s", f[1])
		case f[0] == "own":
			worked++
		case kind == realWorker && !harmless[f[1]]: // others show what the filter is for
			t.Errorf("succeeded: %s", f[1])
		}
	}
	require.NotZero(t, worked, "nothing worked with handles of its own: the attempts are not well-formed")
	require.True(t, v.counts(), "the other's kernel stands still")
	v.intact()
}

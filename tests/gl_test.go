package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/virgl"
	"pvdrm/gem/quota"
	guestimage "pvdrm/guest-image"
)

// The test binary is its own renderer and the keeper of it. The environment says
// so, and is the guard: those run no tests.
const rendererEnv = "PVDRM_TEST_RENDERER"

func init() { runtime.LockOSThread() } // for TestMain, which may become one of them

// serveRenderer does not return in a process that is a renderer or its keeper.
func serveRenderer() {
	var err error
	switch os.Getenv(rendererEnv) {
	case "":
		return
	case virgl.KeeperCommand:
		err = virgl.ServeKeeper(rendererCommand(virgl.WorkerCommand), virgl.WorkerConfig{Confine: true})
	case virgl.WorkerCommand:
		err = virgl.ServeWorker(virgl.WorkerConfig{Confine: true, Memory: 4 << 30})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func rendererCommand(role string) []string {
	return []string{"/usr/bin/env", rendererEnv + "=" + role, os.Args[0]}
}

// glGuest returns a machine of the test's own that has OpenGL, and the program
// glprobe.
func glGuest(t *testing.T) *guest {
	t.Helper()
	if err := virgl.Probe(); err != nil && os.Getenv("CI") == "" {
		t.Skip("make deps installs it:", err)
	}
	program := filepath.Join(t.TempDir(), "glprobe")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "pvdrm/tests/virgl/guest")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	g, err := boot(func(group *quota.Set) (*virgl.Renderer, error) {
		var limits quota.Limits
		limits[quota.Contexts] = mostContexts
		group.SetLimits(limits)
		return virgl.New(virgl.Config{Keeper: rendererCommand(virgl.KeeperCommand), Quota: group})
	}, guestimage.Program{Name: "glprobe", Path: program})
	require.NoError(t, err)
	return g
}

// mostContexts is less than the contexts that glprobe many makes.
const mostContexts = 20

// renderers are the processes that render for guests of this process: what the keepers among its
// children have started. Other users than root cannot read their environment.
func renderers() (pids []int) {
	for _, child := range children(os.Getpid()) {
		pids = append(pids, children(child)...)
	}
	return pids
}

// A guest renders with virgl, beside PVDRM's own programs, and survives what its
// programs and its renderer do.
func TestVirtualMachineRenders(t *testing.T) {
	g := glGuest(t)
	out := g.sh(t, "glprobe clear & gdev run --json --repeat 3 madd cpy > /tmp/suite; wait; cat /tmp/suite")
	require.Contains(t, out, "ok clear")
	require.NotContains(t, out, `"verified":false`)
	t.Log(g.sh(t, "glprobe frames"))
	g.sh(t, "glprobe junk clear")
	g.sh(t, "glprobe steal")
	out = g.sh(t, "glprobe clear many clear")
	require.Contains(t, out, "20 of 40 canvases work")
	require.Zero(t, g.gl.Stats().Lost, "junk is the problem of the context that sent it")

	// The renderer is killed at work: that program is told, the next one has a new one.
	held := make(chan string, 1)
	go func() {
		out, _ := g.try(t, "glprobe hold & gdev run --json --repeat 20 madd; wait")
		held <- out
	}()
	before := g.gl.Stats().Submits
	for g.gl.Stats().Submits < before+3 {
		runtime.Gosched()
	}
	pids := renderers()
	require.Len(t, pids, 1)
	require.NoError(t, unix.Kill(pids[0], unix.SIGKILL))
	out = <-held
	require.Contains(t, out, "lost: ")
	require.NotContains(t, out, `"verified":false`)
	require.Contains(t, out, `"verified":true`)
	require.Equal(t, uint64(1), g.gl.Stats().Lost)
	g.sh(t, "glprobe clear")

	require.NoError(t, g.close(), "something of the guest is left")
	require.Empty(t, renderers())
}

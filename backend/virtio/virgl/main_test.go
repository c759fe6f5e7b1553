package virgl_test

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"pvdrm/backend/virtio/virgl"
)

// The test binary is its own keeper and worker. The environment tells which, and is
// the guard: those run no tests.
const roleEnv = "PVDRM_TEST_VIRGL"

const (
	roleKeeper = "keeper" // with a colon and the role of its workers
	roleWorker = "worker"
	roleDevice = "device" // draws on a device that EGL lists (renderNode)
	roleFake   = "fake"

	roleFakeLook = "fake-look" // looks before it sleeps
)

// testLook is how long those look.
const testLook = 200 * time.Microsecond

func init() { runtime.LockOSThread() } // for TestMain, which may become one of them

func TestMain(m *testing.M) {
	role, of, _ := strings.Cut(os.Getenv(roleEnv), ":")
	switch role {
	case "":
		os.Exit(m.Run())
	case roleKeeper:
		c := virgl.WorkerConfig{Confine: true, Memory: 4 << 30}
		if of == roleDevice {
			c.RenderNode = renderNode()
		}
		if of == roleScene {
			c = sceneConfig()
		}
		end(virgl.ServeKeeper(command(of), c))
	case roleScene:
		end(virgl.ServeWorker(sceneConfig()))
	case roleWorker:
		end(virgl.ServeWorker(virgl.WorkerConfig{Confine: true, Memory: 4 << 30}))
	case roleDevice:
		end(virgl.ServeWorker(virgl.WorkerConfig{Confine: true, Memory: 4 << 30, RenderNode: renderNode()}))
	case roleFake:
		end(virgl.ServeFake())
	case roleFakeLook:
		end(virgl.ServeFakeThatLooks(testLook))
	}
	os.Exit(1)
}

// renderNode is the device that EGL lists on which roleDevice draws: the first, or one that the environment names, such
// as cuda:0.
func renderNode() string { return cmp.Or(os.Getenv("PVDRM_TEST_RENDER_NODE"), "egl:0") }

// command starts this binary in a role.
func command(role string) []string {
	return []string{"/usr/bin/env", roleEnv + "=" + role, os.Args[0]}
}

// end reports why a process ended.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

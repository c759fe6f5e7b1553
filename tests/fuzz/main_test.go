package fuzz

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"pvdrm/backend/virtio/virgl"
)

// The test binary is its own keeper and renderer. The environment tells it which.
const roleEnv = "PVDRM_TEST_FUZZ"

const (
	roleKeeper = "keeper"
	roleWorker = "worker"
)

// rendererMemory is the most that a renderer may allocate, bytes.
const rendererMemory = 2 << 30

func init() {
	if os.Getenv(roleEnv) != "" {
		runtime.LockOSThread() // for TestMain, which becomes one of them
	}
}

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(roleEnv); role {
	case "":
		os.Exit(m.Run())
	case roleKeeper:
		err = virgl.ServeKeeper(command(roleWorker), virgl.WorkerConfig{Confine: true})
	case roleWorker:
		err = virgl.ServeWorker(virgl.WorkerConfig{Confine: true, Memory: rendererMemory})
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, strings.TrimSpace(err.Error()))
		os.Exit(1)
	}
	os.Exit(0)
}

// command starts this binary in a role.
func command(role string) []string {
	return []string{"/usr/bin/env", roleEnv + "=" + role, os.Args[0]}
}

package cuda_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"pvdrm/gpu/cuda"
)

// The test binary is its own worker. The environment says so, and is the guard:
// a worker runs no tests.
const (
	workerEnv  = "PVDRM_TEST_CUDA_WORKER"
	realWorker = "real"
	fakeWorker = "fake"
)

func init() { runtime.LockOSThread() } // for TestMain, which may become a worker

func TestMain(m *testing.M) {
	switch os.Getenv(workerEnv) {
	case "":
		os.Exit(m.Run())
	case realWorker:
		end(cuda.ServeWorker())
	case fakeWorker:
		end(cuda.ServeFake())
	}
	os.Exit(1)
}

// workerCommand starts this binary as a worker of some kind.
func workerCommand(kind string) []string {
	return []string{"/usr/bin/env", workerEnv + "=" + kind, os.Args[0]}
}

// end reports why a worker ended.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

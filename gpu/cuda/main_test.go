package cuda_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"pvdrm/gpu/cuda"
)

// The test binary is its own worker and keeper. The environment says so, and is the
// guard: neither runs tests.
const (
	workerEnv  = "PVDRM_TEST_CUDA_WORKER"
	realWorker = "real"
	fakeWorker = "fake"
	keeping    = "keeper-of-" // and the kind of the workers

	// Kinds that are none.
	missingWorker = "missing"
	falseWorker   = "false"
)

func init() { runtime.LockOSThread() } // for TestMain, which may become a worker

func TestMain(m *testing.M) {
	switch os.Getenv(workerEnv) {
	case "":
		os.Exit(m.Run())
	case realWorker:
		end(cuda.ServeWorker(nil))
	case fakeWorker:
		end(cuda.ServeFake())
	case keeping + missingWorker:
		end(cuda.ServeKeeper([]string{"/nonexistent/worker"}))
	case keeping + falseWorker:
		end(cuda.ServeKeeper([]string{"/bin/false"}))
	case keeping + realWorker, keeping + fakeWorker:
		end(cuda.ServeKeeper(workerCommand(strings.TrimPrefix(os.Getenv(workerEnv), keeping))))
	}
	os.Exit(1)
}

// workerCommand starts this binary as a worker of some kind.
func workerCommand(kind string) []string {
	return []string{"/usr/bin/env", workerEnv + "=" + kind, os.Args[0]}
}

// keeperCommand starts this binary as a keeper of such workers.
func keeperCommand(kind string) []string { return workerCommand(keeping + kind) }

// end reports why a worker ended.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

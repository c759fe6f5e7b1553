package nvidia_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pvdrm/backend/sandbox"
	"pvdrm/gpu/nvidia"
)

// The test binary is its own worker and keeper. The environment tells it which, and is the
// guard: neither runs tests.
const (
	workerEnv  = "PVDRM_TEST_CUDA_WORKER"
	realWorker = "real" // and confined, like those of pvdrm
	freeWorker = "free" // real, and not confined
	fakeWorker = "fake"
	// A fake that is confined has no VRAM: it would be memory files.
	confinedFake = "confined-fake"
	glWorker     = "gl"           // draws, and is guarded by its keeper
	guardedFake  = "guarded-fake" // it is guarded by its keeper, and not confined
	keeping      = "keeper-of-"   // and the kind of the workers

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
		end(nvidia.ServeWorker(confine, os.Getenv("PVDRM_TEST_CUDA_LIBS")))
	case freeWorker:
		end(nvidia.ServeWorker(nil, os.Getenv("PVDRM_TEST_CUDA_LIBS")))
	case fakeWorker:
		end(nvidia.ServeFake(nil))
	case confinedFake:
		end(nvidia.ServeFake(confine))
	case guardedFake:
		end(nvidia.ServeFake(func([]nvidia.Request) error { return nil }))
	case glWorker:
		if err := attemptsOfGL(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case keeping + missingWorker:
		end(nvidia.ServeKeeper([]string{"/nonexistent/worker"}, 0, 0))
	case keeping + falseWorker:
		end(nvidia.ServeKeeper([]string{"/bin/false"}, 0, 0))
	case keeping + realWorker:
		end(sandbox.EnterCUDAKeeper())
		end(nvidia.ServeKeeper(workerCommand(realWorker), keeperVRAM(), keeperPeers()))
	case keeping + confinedFake:
		nvidia.FakeKeeper()
		end(sandbox.EnterCUDAKeeper())
		end(nvidia.ServeKeeper(workerCommand(confinedFake), keeperVRAM(), keeperPeers()))
	case keeping + freeWorker, keeping + fakeWorker, keeping + guardedFake:
		if os.Getenv(workerEnv) != keeping+freeWorker {
			nvidia.FakeKeeper()
		}
		end(nvidia.ServeKeeper(workerCommand(strings.TrimPrefix(os.Getenv(workerEnv), keeping)), keeperVRAM(), keeperPeers()))
	}
	os.Exit(1)
}

// confine confines a worker as pvdrm does.
func confine(requests []nvidia.Request) error {
	var ioctls []sandbox.Ioctl
	if more, err := strconv.ParseUint(os.Getenv("PVDRM_TEST_CUDA_ALLOW"), 0, 32); err == nil {
		ioctls = append(ioctls, sandbox.Ioctl{Mask: 0xffff, Value: uint32(more)})
	}
	for _, r := range requests {
		ioctls = append(ioctls, sandbox.Ioctl(r))
	}
	return sandbox.EnterRenderer(ioctls)
}

// chosenWorker is the kind of real workers that tests start: gpu/nvidia/record needs some that
// have no filter.
func chosenWorker() string {
	if os.Getenv("PVDRM_TEST_CUDA_UNCONFINED") != "" {
		return freeWorker
	}
	return realWorker
}

// programEnv names a test binary to start instead of this one: other users cannot read this one.
const programEnv = "PVDRM_TEST_CUDA_PROGRAM"

// workerCommand starts this binary as a worker of some kind.
func workerCommand(kind string) []string {
	program := os.Getenv(programEnv)
	if program == "" {
		program = os.Args[0]
	}
	return []string{"/usr/bin/env", workerEnv + "=" + kind, program}
}

// keeperCommand starts this binary as a keeper of such workers.
func keeperCommand(kind string) []string { return workerCommand(keeping + kind) }

// keeperVRAMEnv is the limit of a keeper, in bytes.
const keeperVRAMEnv = "PVDRM_TEST_CUDA_VRAM"

func keeperVRAM() uint64 {
	n, _ := strconv.ParseUint(os.Getenv(keeperVRAMEnv), 10, 64) // most tests set none
	return n
}

// keeperPeersEnv is how many sockets to other keepers a keeper has.
const keeperPeersEnv = "PVDRM_TEST_CUDA_PEERS"

func keeperPeers() int {
	n, _ := strconv.Atoi(os.Getenv(keeperPeersEnv)) // most have none
	return n
}

// end reports why a worker ended.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

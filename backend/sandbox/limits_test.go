package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// testLimits are those that bounded sees: half of the memory is more than the heap gets that has
// no limit.
var testLimits = Limits{Memory: 2400 << 20, Files: 64}

// bound is the first stage of a process with limits.
func bound() int {
	runtime.LockOSThread()
	err := os.Setenv(inside, "bounded")
	if err == nil {
		err = Shed(Shedding{Args: os.Args, Limits: testLimits})
	}
	fmt.Println(err)
	return 1
}

// bounded is the second: it goes up to its limits and beyond.
func bounded() int {
	heap := make([]byte, testLimits.Memory/4)
	for i := range heap {
		heap[i] = 1
	}
	runtime.KeepAlive(heap)
	_, err := unix.Mmap(-1, 0, int(testLimits.Memory), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	fmt.Println("memory:", err)
	_, err = unix.Mmap(-1, 0, 64<<30, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	fmt.Println("addresses:", err)
	var files, core syscall.Rlimit
	err = syscall.Getrlimit(unix.RLIMIT_NOFILE, &files)
	fmt.Println("files:", files, err)
	var extra []int
	for err == nil {
		var fd int
		if fd, err = unix.Dup(0); err == nil {
			extra = append(extra, fd)
		}
	}
	fmt.Println("more files:", err)
	for _, fd := range extra {
		_ = unix.Close(fd) // they are not needed
	}
	err = syscall.Getrlimit(unix.RLIMIT_CORE, &core)
	fmt.Println("core:", core, err)
	err = syscall.Setrlimit(unix.RLIMIT_DATA, &syscall.Rlimit{Cur: 1 << 40, Max: 1 << 40})
	fmt.Println("more:", err)
	if err := Enter(); err != nil {
		fmt.Println("not confined:", err)
		return 1
	}
	heap = make([]byte, testLimits.Memory/2)
	for i := 0; i < len(heap); i += 4096 {
		heap[i] = 2
	}
	runtime.KeepAlive(heap)
	fmt.Println("half")
	runtime.KeepAlive(make([]byte, testLimits.Memory)) // ends it
	fmt.Println("the heap has no bound")
	return 0
}

// What a process has is bounded, in C's way and in Go's, and it cannot raise the bound.
func TestLimits(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector needs more memory than the bound")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), inside+"=bound")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.Contains(t, string(out), "memory: cannot allocate memory\naddresses: <nil>\nfiles: {64 64} <nil>\nmore files: too many open files\ncore: {0 0} <nil>\nmore: operation not permitted\nhalf\n")
	require.Contains(t, string(out), "out of memory")
	require.NotContains(t, string(out), "no bound")
}

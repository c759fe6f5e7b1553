package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startAgentOn starts an agent as startAgent does, which may run on the first n of the processors that this
// process may run on, or with 0 on all of them.
func startAgentOn(ctx context.Context, n int, cmd *exec.Cmd) (a *agentProcess, err error) {
	if n == 0 {
		return startAgent(ctx, cmd)
	}
	err = withProcessors(n, func() error {
		a, err = startAgent(ctx, cmd)
		return err
	})
	return a, err
}

// withProcessors calls do on a thread that may run on the first n of its processors only, as may the processes that do starts.
func withProcessors(n int, do func() error) (err error) {
	runtime.LockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("asking for the processors of this thread: %w", err)
	}
	defer func() {
		if e := unix.SchedSetaffinity(0, &before); e != nil {
			err = errors.Join(err, fmt.Errorf("giving this thread its processors back: %w", e))
			return // and the thread ends with its goroutine
		}
		runtime.UnlockOSThread()
	}()
	var some unix.CPUSet
	for cpu := 0; some.Count() < n && cpu < 64*len(before); cpu++ {
		if before.IsSet(cpu) {
			some.Set(cpu)
		}
	}
	if some.Count() < n {
		return fmt.Errorf("this thread has %d processors, not %d", some.Count(), n)
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return fmt.Errorf("choosing %d processors: %w", n, err)
	}
	return do()
}

package main

import (
	"bufio"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/suite"
)

// spinCommand is `gdev spin madd|long-madd|TIME`, for pvdrm bench fairness: it runs
// the kernel, or one that takes about that time, until standard input ends. It
// prints "ready" after the first kernel, and at the end the number of kernels that
// ended from then on, or since it was sent a line, and in how many seconds. TIME@OFF waits
// for each kernel, and leaves the GPU idle for that part of the time. "endless" runs
// kernels that do not end. With /BLOCKS behind TIME or "endless" they have so many blocks. "idle" opens a context and does nothing. `gdev spin TIME rounds` prints how many rounds such a kernel has, which
// TIME:ROUNDS then runs.
func spinCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	rounds := len(args) == 2 && args[1] == "rounds"
	if len(args) != 1 && !rounds {
		return misuse(stderr, "spin takes a program's name")
	}
	stop := make(chan struct{})
	var restart atomic.Bool // begin to count again
	go func() {
		defer close(stop)
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			restart.Store(true)
		}
	}()
	drv, err := cuda.Init(openFile)
	if err != nil {
		fmt.Fprintf(stderr, "gdev: cannot use the GPU: %v\n", err)
		return exitFailed
	}
	if rounds {
		n, err := suite.Rounds(drv, args[0])
		if err != nil {
			fmt.Fprintf(stderr, "gdev: %v\n", err)
			return exitFailed
		}
		fmt.Fprintln(stdout, n)
		return exitOK
	}
	kernels := 0
	var began, last time.Time
	if args[0] == "idle" {
		fmt.Fprintln(stdout, "ready")
		<-stop
		err = drv.Close()
	} else {
		err = suite.Spin(drv, args[0], stop, func() {
			fmt.Fprintln(stdout, "ready")
			began = time.Now()
			last = began
		}, func(n int) {
			kernels += n
			last = time.Now()
			if restart.CompareAndSwap(true, false) {
				kernels, began = 0, last
			}
		})
	}
	if err != nil {
		fmt.Fprintf(stderr, "gdev: %v\n", err)
		return exitFailed
	}
	fmt.Fprintln(stdout, kernels, last.Sub(began).Seconds())
	return exitOK
}

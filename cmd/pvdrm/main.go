// Command pvdrm shares a GPU among virtual machines: it starts guests with a
// paravirtual GPU, the backends that serve them, and programs that use one as a
// local guest.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// Exit codes. Those of a program that pvdrm ran are passed on as they are.
const (
	exitUsage  = 2
	exitFailed = 125 // pvdrm itself failed, not the program
)

// exitError carries the exit code of a program.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("the program ended with exit code %d", e.code) }

// usageError is a wrong command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// init keeps the main goroutine on the main thread: the processes that commands
// start are killed when the thread that started them ends (PR_SET_PDEATHSIG),
// and this one lives as long as pvdrm.
func init() { runtime.LockOSThread() }

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	command, err := newRoot().ExecuteContextC(ctx)
	var code exitError
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return code.code
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "pvdrm: %v\nSee `%s --help`.\n", err, command.CommandPath())
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "pvdrm: interrupted; everything it had started is stopped")
		return exitFailed
	}
	fmt.Fprintf(os.Stderr, "pvdrm: %v\n", err)
	return exitFailed
}

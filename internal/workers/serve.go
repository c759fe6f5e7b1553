package workers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// Program is what a keeper starts.
type Program struct {
	Command []string
	Env     []string // nil for the keeper's own
	// Most is how many may run at once, whatever a backend that was taken over orders; 0 for any
	// number.
	Most int
	// Prepare makes what one worker has besides its socket; nil for nothing.
	Prepare func() (Equipment, error)
}

// Equipment is what one worker has besides its socket. Serve closes the files.
type Equipment struct {
	Worker  []*os.File // the worker's descriptors from Socket+1 on
	Backend []*os.File // are sent to the backend
	// Guard runs in the keeper, on a goroutine of its own, while the worker does; nil for nothing.
	// An error of it ends the worker. It also runs if the worker does not start, and then finds
	// its other ends closed.
	Guard func() error
}

func (e *Equipment) close() {
	for _, f := range append(e.Worker, e.Backend...) {
		_ = f.Close() // the worker and the backend have them; some are in both lists
	}
}

// keeper is the process that starts workers.
type keeper struct {
	program Program

	mu      sync.Mutex
	workers map[*exec.Cmd]struct{} // that run
	reapers sync.WaitGroup
}

// Serve is the program of the process that starts workers. It serves the backend at the other end of
// descriptor 3 until that is gone; then it ends the workers. It must be called on the main thread.
func Serve(p Program) error {
	runtime.LockOSThread() // the kernel ends workers with the thread that started them
	unix.CloseOnExec(Socket)
	k := &keeper{program: p, workers: map[*exec.Cmd]struct{}{}}
	defer k.end()
	for {
		id, err := receiveOrder()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("keeper of workers: %w (pvdrm starts it; it is no command for users)", err)
		}
		if err := k.start(id); err != nil {
			// If the backend is gone, so is the next order.
			_ = sendNotice(&notice{id: id, kind: noticeRefused, text: err.Error()})
		}
	}
}

// end ends all workers, and waits until they are reaped.
func (k *keeper) end() {
	k.mu.Lock()
	for cmd := range k.workers {
		_ = cmd.Process.Kill() // fails only when it has ended
	}
	k.mu.Unlock()
	k.reapers.Wait()
}

// start starts a worker and sends the notice of it.
func (k *keeper) start(id uint64) error {
	k.mu.Lock()
	running := len(k.workers)
	k.mu.Unlock()
	if k.program.Most > 0 && running >= k.program.Most {
		return fmt.Errorf("%d processes run, no more are allowed", running)
	}
	socket, theirs, err := unixsock.Pair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unixsock.Close([]int{socket}) // the backend has it
	defer func() { _ = theirs.Close() }()
	var e Equipment
	if k.program.Prepare != nil {
		if e, err = k.program.Prepare(); err != nil {
			return err
		}
	}
	cmd := exec.Command(k.program.Command[0], k.program.Command[1:]...)
	cmd.Env = k.program.Env
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = append([]*os.File{theirs}, e.Worker...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	if e.Guard != nil {
		go guard(e.Guard, cmd.Process)
	}
	defer e.close()
	if err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		_ = cmd.Process.Kill() // it has just been started
		_ = cmd.Wait()         // how it ended is known
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unixsock.Close([]int{pidfd})
	fds := []int{socket}
	for _, f := range e.Backend {
		fds = append(fds, int(f.Fd()))
	}
	// If the backend is gone, so is the next order.
	_ = sendNotice(&notice{id: id, kind: noticeStarted, fds: append(fds, pidfd)})
	k.mu.Lock()
	k.workers[cmd] = struct{}{}
	k.mu.Unlock()
	k.reapers.Go(func() { k.reap(id, cmd) })
	return nil
}

// guard runs the Guard of a worker, which is nil if it did not start.
func guard(run func() error, worker *os.Process) {
	if err := run(); err != nil && worker != nil {
		fmt.Fprintln(os.Stderr, "pvdrm:", err)
		_ = worker.Kill() // fails only when it has ended
	}
}

// reap waits until a worker has ended, and sends the notice of it.
func (k *keeper) reap(id uint64, cmd *exec.Cmd) {
	reason := "exit status 0"
	if err := cmd.Wait(); err != nil {
		reason = err.Error()
	}
	k.mu.Lock()
	delete(k.workers, cmd)
	k.mu.Unlock()
	_ = sendNotice(&notice{id: id, kind: noticeEnded, text: reason}) // fails where the backend is gone
}

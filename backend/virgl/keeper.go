package virgl

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
)

// Requests to a keeper, of one byte each. It answers with what went wrong, or with
// an empty message that carries the socket of the new worker.
const (
	keeperStart = 's' // end the worker, if there is one, and start another
	keeperStop  = 'k' // end the worker, if there is one
)

// maxComplaint is the most bytes of a keeper's answer.
const maxComplaint = 1024

// ServeKeeper is the program of the process that starts and ends workers, by the
// given command, for a backend that may do neither once it is confined. It serves
// the backend at the other end of descriptor 3 until that hangs up. It must be
// called on the main thread: workers end with it.
func ServeKeeper(worker []string) error {
	runtime.LockOSThread()
	unix.CloseOnExec(socketFD)
	if err := sandbox.DropCapabilities(); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("renouncing privileges: %w", err)
	}
	var current *exec.Cmd
	stop := func() {
		if current != nil {
			_ = current.Process.Kill() // fails only when it has ended
			_ = current.Wait()         // how it ended does not matter any more
			current = nil
		}
	}
	defer stop()
	var b [1]byte
	for {
		n, err := unix.Read(socketFD, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return os.NewSyscallError("read", err)
		case n == 0:
			return nil // the backend is gone
		}
		stop()
		var socket *os.File
		if b[0] == keeperStart {
			current, socket, err = startWorker(worker)
		}
		if err = answerBackend(socket, err); err != nil {
			return err
		}
	}
}

// keepHeap has glibc's malloc keep up to 64 MiB of memory that was freed. It gives back more than
// 128 KiB otherwise, and a renderer takes and frees more than that in every frame: page faults were
// most of what it did. It has to be there when the process starts (glibc manual, "Tunables").
const keepHeap = "GLIBC_TUNABLES=glibc.malloc.trim_threshold=67108864:glibc.malloc.mmap_threshold=33554432"

// startWorker starts a worker and returns the socket for its backend.
func startWorker(command []string) (*exec.Cmd, *os.File, error) {
	ours, theirs, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = theirs.Close() }() // the worker has it
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(), keepHeap)
	c.Stderr = os.Stderr
	c.ExtraFiles = []*os.File{theirs}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	return c, ours, nil
}

func answerBackend(socket *os.File, failure error) error {
	var text, rights []byte
	if failure != nil {
		text = []byte(failure.Error())
		text = text[:min(len(text), maxComplaint)]
	}
	if socket != nil {
		rights = unix.UnixRights(int(socket.Fd()))
		defer func() { _ = socket.Close() }() // the backend has it
	}
	if len(text) == 0 {
		text = []byte{0} // a message without bytes would read like the end
	}
	return os.NewSyscallError("sendmsg", unix.Sendmsg(socketFD, text, rights, nil, 0))
}

// keeper is a keeper's process as its backend sees it. One request at a time.
type keeper struct {
	conn *net.UnixConn
	pid  int
	gone chan struct{} // closed when it has ended and is reaped
}

// startKeeper starts a keeper by a command.
func startKeeper(command []string) (*keeper, error) {
	ours, theirs, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }() // the keeper has it
	conn, err := unixConn(ours)
	if err != nil {
		return nil, err
	}
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(), keepHeap)
	c.Stderr = os.Stderr
	c.ExtraFiles = []*os.File{theirs}
	// A group of its own: ^C is for the backend. When that ends, so does the socket.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the keeper of renderers: %w", err), conn.Close())
	}
	k := &keeper{conn: conn, pid: c.Process.Pid, gone: make(chan struct{})}
	go func() {
		_ = c.Wait() // its socket tells all there is to know
		close(k.gone)
	}()
	return k, nil
}

// start ends the worker, if there is one, and starts another.
func (k *keeper) start() (*net.UnixConn, error) {
	fds, err := k.ask(keeperStart)
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		return nil, fmt.Errorf("%w: %d sockets", errFrame, len(fds))
	}
	return unixConn(os.NewFile(uintptr(fds[0]), "renderer"))
}

// keeperLimit is how long a keeper may take. It waits for a worker to end, which
// takes long only if the kernel cannot end it.
const keeperLimit = 10 * time.Second

// stop ends the worker, if there is one. When it returns nil, the process is gone.
func (k *keeper) stop() error {
	_, err := k.ask(keeperStop)
	return err
}

func (k *keeper) ask(what byte) ([]int, error) {
	b, control := make([]byte, maxComplaint), make([]byte, unix.CmsgSpace(4))
	err := k.conn.SetDeadline(time.Now().Add(keeperLimit))
	if err == nil {
		_, err = k.conn.Write([]byte{what})
	}
	n, controls := 0, 0
	if err == nil {
		n, controls, _, _, err = k.conn.ReadMsgUnix(b, control)
	}
	if err == nil && n == 0 {
		err = errors.New("it has ended")
	}
	if err != nil {
		_ = k.conn.Close() // a late answer would be taken for that to the next question
		return nil, fmt.Errorf("the keeper of renderers: %w", err)
	}
	if text := b[:n]; text[0] != 0 {
		return nil, fmt.Errorf("starting a renderer: %s", text)
	}
	return parseRights(control[:controls])
}

// close ends the keeper and its worker.
func (k *keeper) close() error {
	err := k.conn.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // ask has done it
	}
	<-k.gone
	return err
}

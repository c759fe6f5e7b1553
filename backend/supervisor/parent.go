package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sandbox"
	"pvdrm/internal/cgroup"
)

// Config configures a backend to start.
type Config struct {
	Name    string   // of the guest, in the log
	Command []string // of the child: it calls Adopt, with the flag BirthFlag
	Guest   *net.UnixListener
	Confine bool
	PIDs    bool // with process ids of its own, where it is confined
	Devices Devices
	Bounds  Bounds
	// Peers are sockets to what serves the guest's other devices, which the child gets in this order (Child.Peers).
	// Start closes them in any case.
	Peers []*os.File
	// More are sockets of further guests, which the same child serves.
	More []*net.UnixListener
	// Seat takes a seat at the arbiter for the guest; nil where it has none. Where the child has several,
	// each for a part of what it serves, the number says which; Seats is how many, and 0 is one.
	Seat  func(ctx context.Context, number int) (*arbiter.Seat, error)
	Seats int
	Log   *zap.Logger
}

// Backend is a child as its parent sees it.
type Backend struct {
	cfg   Config
	cmd   *exec.Cmd
	link  *link
	stats asker
	seats bucket
	meter *meter
	log   *zap.Logger // through meter
	logs  *logPipe

	identity *sandbox.Identity // nil if it has none
	group    *cgroup.Group     // nil if it has none
	lacking  lacking

	cancel context.CancelFunc
	ready  chan struct{} // closed when the guest is served
	heard  chan struct{} // closed when the link is read to its end
	done   chan struct{} // closed when the child has ended, with err set
	err    error

	mu      sync.Mutex
	failure error // the reason of the child's end, as reported or observed
}

// Start starts a child, and returns when it serves its guest. Guest and More are closed in any case; their
// paths stay. The child ends with the calling thread, so that must be one that does not end before it: see
// Pdeathsig of package syscall.
func Start(ctx context.Context, cfg Config) (*Backend, error) {
	b := &Backend{cfg: cfg, seats: bucket{most: seatBurst, rate: seatRate}, ready: make(chan struct{}), heard: make(chan struct{}), done: make(chan struct{})}
	b.meter = newMeter(cfg.Log.Core(), cfg.Name)
	b.log = zap.New(b.meter).With(zap.String("guest", Escape(cfg.Name)))
	if err := b.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the backend: %w", err), b.release())
	}
	// It is stopped by Stop, and not by ctx: what uses the guest's GPU is to end before it.
	var life context.Context
	life, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go b.serve(life)
	go b.wait()
	select {
	case <-b.ready:
		b.warn()
		return b, nil
	case <-b.done:
		if b.err == nil {
			b.err = errors.New("it ended before it served")
		}
		return nil, b.err
	case <-ctx.Done():
		b.Stop()
		return nil, ctx.Err()
	}
}

// start makes what connects the two, and starts the process.
func (b *Backend) start() (err error) {
	guests := append([]*net.UnixListener{b.cfg.Guest}, b.cfg.More...)
	defer func() {
		for _, l := range guests {
			l.SetUnlinkOnClose(false)
			err = errors.Join(err, l.Close()) // the child has it
		}
	}()
	given := b.cfg.Peers
	defer func() { err = errors.Join(err, closeFiles(given)) }() // likewise
	var sockets []*os.File
	for _, l := range guests {
		f, err := l.File()
		if err != nil {
			return errors.Join(fmt.Errorf("passing the guest's socket on: %w", err), closeFiles(sockets))
		}
		sockets = append(sockets, f)
	}
	given = append(sockets, given...)
	conn, theirs, err := connection(syscall.SOCK_SEQPACKET)
	if err != nil {
		return err
	}
	given = slices.Insert(given, 1, theirs)
	b.link = &link{conn: conn, fromChild: true}
	if b.stats.conn, theirs, err = connection(syscall.SOCK_STREAM); err != nil {
		return err
	}
	given = slices.Insert(given, 2, theirs)
	logs, logsEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("a pipe for the backend's log: %w", err)
	}
	if err := b.launch(given, logsEnd); err != nil {
		return errors.Join(err, logs.Close(), logsEnd.Close())
	}
	b.logs = startLogPipe(logs, b.log, b.meter)
	return logsEnd.Close() // the child has it
}

func closeFiles(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// launch starts the process with the descriptors that it is given.
func (b *Backend) launch(given []*os.File, logs *os.File) error {
	command := func(own bool) *exec.Cmd {
		flag, err := birth{Confine: b.cfg.Confine, Own: own, More: len(b.cfg.More), Peers: len(b.cfg.Peers), Bounds: b.cfg.Bounds, Devices: b.cfg.Devices}.flag()
		cmd := exec.Command(b.cfg.Command[0], append(b.cfg.Command[1:len(b.cfg.Command):len(b.cfg.Command)], flag)...)
		cmd.Err = errors.Join(cmd.Err, err)
		cmd.Env = Environment(os.Environ())
		cmd.Stdout, cmd.Stderr = logs, logs
		cmd.ExtraFiles = append([]*os.File(nil), given...) // from guestFD on
		// A session of its own: ^C is for the parent, which stops it when its guest is gone.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if b.cfg.Confine {
			cmd.Env = append(cmd.Env, b.cfg.Bounds.environment())
		}
		if b.group != nil {
			b.group.AddTo(cmd)
		}
		return cmd
	}
	if !b.cfg.Confine {
		b.cmd = command(false)
		return b.cmd.Start()
	}
	if err := sandbox.Available(); err != nil {
		return fmt.Errorf("%w: backends cannot be confined on this host; --sandbox=off goes without", err)
	}
	var err error
	if b.identity, err = sandbox.ReserveIdentity(); err != nil {
		b.identity, b.lacking.identity = nil, err
	}
	if b.group, err = cgroup.New(b.cfg.Name, b.cfg.Bounds.group()); err != nil {
		b.group, b.lacking.group = nil, err
	}
	options := sandbox.Options{PIDs: b.cfg.PIDs, Identity: b.identity}
	var refused error
	b.cmd, refused, err = sandbox.Start(command, options)
	if err != nil && b.group != nil {
		// Processes may be kept from starting in another group although it can be made.
		b.lacking.group = errors.Join(err, b.group.Close())
		b.group = nil
		b.cmd, refused, err = sandbox.Start(command, options)
	}
	b.lacking.start(refused)
	return err
}

// serve reads the link and answers, until the child hangs up or breaks the protocol.
func (b *Backend) serve(ctx context.Context) {
	defer close(b.heard)
	var c conversation
	for {
		m, _, err := b.link.receive()
		if err == nil {
			err = c.take(m)
		}
		if err == nil {
			switch m.op {
			case opReady:
				if m.text != "" {
					b.lacking.root = errors.New(Escape(m.text))
				}
				close(b.ready)
			case opFailed:
				b.explain(&FailedError{Code: int(m.code), Text: Escape(m.text)})
			case opSeat:
				if err = b.grant(ctx, m.code); ctx.Err() != nil {
					return
				}
			}
		}
		if err == io.EOF || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			return // the child has ended
		}
		if err != nil {
			b.log.Error("the backend breaks the protocol of its link and is stopped", zap.Error(err))
			b.explain(err)
			_ = b.cmd.Process.Kill() // it may have ended
			return
		}
	}
}

// explain keeps the first reason of the child's end.
func (b *Backend) explain(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure == nil {
		b.failure = err
	}
}

// lastLimit is how long the last words of a child that has ended are waited for: workers may have its
// log, too, and an arbiter may be slow to answer.
const lastLimit = 2 * time.Second

// wait waits for the end of the child, and releases its resources.
func (b *Backend) wait() {
	defer close(b.done)
	err := b.cmd.Wait()
	if b.group != nil {
		_ = b.group.Close() // ends its workers; a group that is left is swept by the next one
		b.group = nil
	}
	last := time.After(lastLimit)
	for _, words := range []<-chan struct{}{b.heard, b.logs.done} {
		select {
		case <-words:
		case <-last:
			last = time.After(0) // nor is the other waited for
		}
	}
	b.cancel()
	b.err = b.end(err)
	if err := b.release(); err != nil {
		b.log.Warn("what the backend had is not all given back", zap.Error(err))
	}
	b.meter.close()
}

// end returns the error with which the child ended; nil if it ended in order.
func (b *Backend) end(exit error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	crash := b.logs.crash()
	switch {
	case b.failure != nil:
		return b.failure
	case exit != nil && crash != "":
		return &CrashError{Exit: exit, Cause: crash, Memory: b.cfg.Bounds.Memory}
	}
	return exit
}

// release frees the resources of the child.
func (b *Backend) release() (err error) {
	if b.link != nil {
		err = errors.Join(err, b.link.conn.Close())
	}
	if b.stats.conn != nil {
		err = errors.Join(err, b.stats.close())
	}
	if b.group != nil {
		err = errors.Join(err, b.group.Close())
	}
	if b.identity != nil {
		err = errors.Join(err, b.identity.Release())
	}
	return err
}

// PID returns the child's process id, as this process sees it.
func (b *Backend) PID() int { return b.cmd.Process.Pid }

// Done returns a channel that is closed when the child has ended.
func (b *Backend) Done() <-chan struct{} { return b.done }

// Err returns how the child ended; nil if in order. It is to be called once Done is closed.
func (b *Backend) Err() error { return b.err }

// Statistics asks the child for its statistics. The answer may be anything.
func (b *Backend) Statistics() ([]byte, error) { return b.stats.ask() }

// stopLimit is how long a child may take to end its guest's sessions.
const stopLimit = 5 * time.Second

// Stop ends the child and waits for its end.
func (b *Backend) Stop() {
	b.cancel()
	_ = b.link.conn.CloseWrite() // the child reads the end, if it has not ended already
	select {
	case <-b.done:
	case <-time.After(stopLimit):
		_ = b.cmd.Process.Kill()
		<-b.done
	}
}

// warn logs once what the host refused the child, and what still separates it from others.
func (b *Backend) warn() {
	if !b.cfg.Confine {
		return
	}
	level, text, fields := b.lacking.message()
	if e := b.log.Check(level, text); e != nil {
		e.Write(fields...)
	}
}

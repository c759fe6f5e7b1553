package guestinit

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/vmm/control"
)

// endGrace is how long killed jobs may take to end. One that hangs in the kernel takes longer.
const endGrace = 3 * time.Second

// server serves the control port. The goroutine in serve reads it; each job has its own goroutines.
type server struct {
	conn   *control.Conn
	reaper *reaper

	mu   sync.Mutex
	jobs map[uint32]*job
	wg   sync.WaitGroup
}

func newServer(rw io.ReadWriter, r *reaper) *server {
	return &server{conn: control.NewConn(rw, control.Guest), reaper: r, jobs: map[uint32]*job{}}
}

// serve says hello and serves calls until the host asks for a shutdown (nil) or the port fails. All
// jobs are killed when it returns.
func (s *server) serve(h control.Hello) error {
	h.Version = control.Version
	err := s.conn.Send(control.Frame{Type: control.TypeHello, Payload: h.Encode()})
	for err == nil {
		var f control.Frame
		if f, err = s.conn.Receive(); err != nil {
			break
		}
		if f.Type == control.TypeShutdown {
			break
		}
		err = s.handle(f)
	}
	s.mu.Lock()
	for _, j := range s.jobs {
		j.signal(unix.SIGKILL)
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { s.wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(endGrace):
	}
	return err
}

func (s *server) handle(f control.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[f.Call]
	switch f.Type {
	case control.TypeStart:
		m, err := control.DecodeStart(f.Payload)
		if err != nil {
			return err
		}
		return s.begin(f.Call, func(j *job) control.Exit { return j.run(m) })
	case control.TypePut:
		m, err := control.DecodePut(f.Payload)
		if err != nil {
			return err
		}
		return s.begin(f.Call, func(j *job) control.Exit { return j.put(m) })
	}
	if j == nil {
		return nil // the call has just ended
	}
	switch f.Type {
	case control.TypeData:
		if f.Stream != control.Stdin {
			return fmt.Errorf("%w: data for stream %d", control.ErrProtocol, f.Stream)
		}
		return j.stdin.Put(f.Payload)
	case control.TypeClose:
		j.stdin.Close(io.EOF)
	case control.TypeWindow:
		switch f.Stream {
		case control.Stdout:
			return j.stdout.Add(f.Value())
		case control.Stderr:
			return j.stderr.Add(f.Value())
		}
	case control.TypeSignal:
		j.signal(unix.Signal(f.Value()))
	case control.TypeResize:
		j.resize(f.Value())
	}
	return nil
}

// begin starts a goroutine for a call. Preconditions: s.mu is held.
func (s *server) begin(call uint32, do func(*job) control.Exit) error {
	if s.jobs[call] != nil {
		return fmt.Errorf("%w: call %d started twice", control.ErrProtocol, call)
	}
	if len(s.jobs) >= control.MaxCalls {
		// Not from here: who reads the port must not write to it.
		s.wg.Go(func() {
			_ = s.exit(call, control.Exit{Code: codeNoExec, Message: fmt.Sprintf("%d programs run already", control.MaxCalls)})
		})
		return nil
	}
	j := &job{call: call, reaper: s.reaper}
	j.stdout = control.NewOutbox(s.conn, call, control.Stdout)
	j.stderr = control.NewOutbox(s.conn, call, control.Stderr)
	j.stdin = control.NewInbox(func(n uint32) {
		// A failure to send shows where the port is read.
		_ = s.conn.Send(control.Frame{Type: control.TypeWindow, Stream: control.Stdin, Call: call, Payload: control.U32(n)})
	})
	s.jobs[call] = j
	s.wg.Go(func() {
		exit := do(j)
		s.mu.Lock()
		delete(s.jobs, call)
		s.mu.Unlock()
		j.stdin.Close(io.ErrClosedPipe)
		_ = s.exit(call, exit)
	})
	return nil
}

func (s *server) exit(call uint32, e control.Exit) error {
	return s.conn.Send(control.Frame{Type: control.TypeExit, Call: call, Payload: e.Encode()})
}

// put writes a file: beside its place first, so that nobody sees half of it.
func (j *job) put(m control.Put) control.Exit {
	if err := j.putFile(m); err != nil {
		return control.Exit{Code: 1, Message: err.Error()}
	}
	return control.Exit{}
}

func (j *job) putFile(m control.Put) error {
	if !filepath.IsAbs(m.Path) {
		return fmt.Errorf("path %q is not absolute", m.Path)
	}
	if err := os.MkdirAll(filepath.Dir(m.Path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(m.Path), ".put-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails where all went well
	_, err = io.Copy(f, j.stdin)
	if err == nil {
		err = f.Chmod(os.FileMode(m.Mode & 0o777))
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), m.Path)
}

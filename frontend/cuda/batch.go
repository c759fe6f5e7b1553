package cuda

import "pvdrm/drm"

// Batch is work that was checked and encoded once and can be queued many times: the launch of an
// executable graph. Its commands run in the order in which they were added. CUDA has no such call.
//
// A Batch must not be added to while it is queued.
type Batch struct {
	c       *Context
	stream  *Stream  // of no channel: it only collects
	pieces  [][]byte // command streams, each short enough for one EXEC
	modules map[*Module]struct{}
}

// NewBatch makes an empty batch.
func (c *Context) NewBatch() *Batch {
	s := newStream(c, 0, false)
	s.task = []byte{}
	return &Batch{c: c, stream: s, modules: map[*Module]struct{}{}}
}

// Add calls queue with a stream that collects what is queued there. Calls that wait for the
// stream fail.
func (b *Batch) Add(queue func(*Stream) error) error {
	before := len(b.stream.task)
	if err := queue(b.stream); err != nil {
		b.stream.task = b.stream.task[:before]
		return err
	}
	// Most commands are a few hundred bytes. One that goes over the end begins the next piece.
	for len(b.stream.task) > drm.MaxExecBytes && before > 0 {
		rest := append([]byte{}, b.stream.task[before:]...)
		b.pieces = append(b.pieces, b.stream.task[:before:before])
		b.stream.task, before = rest, 0
	}
	return nil
}

// AddKernel adds a launch with arguments as for LaunchPacked. The stream of cfg is ignored.
func (b *Batch) AddKernel(f *Function, cfg LaunchConfig, params []byte) error {
	err := b.Add(func(s *Stream) error {
		cfg.Stream = s
		return f.LaunchPacked(cfg, params)
	})
	if err == nil {
		b.modules[f.m] = struct{}{}
	}
	return err
}

// Queue queues the work on a stream.
func (b *Batch) Queue(s *Stream) error {
	const call = "cuGraphLaunch"
	c := b.c
	s, err := c.enterFor(call, s)
	if err != nil {
		return err
	}
	defer c.life.RUnlock()
	for m := range b.modules {
		if err := m.loaded(call); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.dead {
		return errorf(call, ErrInvalidHandle, "the stream is destroyed")
	}
	for i := range len(b.pieces) + 1 {
		piece := b.stream.task
		if i < len(b.pieces) {
			piece = b.pieces[i]
		}
		if s.task != nil {
			s.task = append(s.task, piece...)
		} else if len(piece) > 0 {
			if _, err := c.exec(call, s, piece); err != nil {
				return err
			}
		}
	}
	if b.stream.printing > 0 {
		p := point{s, s.last}
		if s.task != nil {
			p.seq++
		}
		c.mayPrint(p)
	}
	return nil
}

// After lets work that is queued from now on wait for all that another stream has queued so far.
func (s *Stream) After(o *Stream) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.c == c && !o.dead && o != s {
		s.pending[o] = max(s.pending[o], o.last)
	}
}

// NonBlocking reports whether the stream stands outside of the rule of the default stream.
func (s *Stream) NonBlocking() bool { return s.nonBlocking }

// Context returns the context of the stream.
func (s *Stream) Context() *Context { return s.c }

package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"pvdrm/backend/translate"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// MaxState is the largest state of a file, in bytes; that of its context is not in it.
const MaxState = 64 << 20

// state is a file as Snapshot writes it. Numbers of memories, modules and channels are places in
// gpu.Objects. It is trusted in nothing.
type state struct {
	Kept     uint64 `json:",omitempty"` // VRAM of the context, in bytes
	Objects  []objectState
	Modules  []moduleState
	Channels []channelState
}

type objectState struct {
	Handle uint32
	Memory int
	Size   uint64
	Source uint32 // of granted pages
	System bool
}

type moduleState struct {
	ID        uint32
	Module    int
	Source    uint64            // bytes
	Variables uint64            // bytes
	Functions map[uint32]string // names by id
}

type channelState struct {
	ID        uint32
	Channel   int
	Submitted uint64
	Done      uint64
	Failure   *failureState
	Poison    *failureState
}

type failureState struct {
	Seqno uint64
	Errno syscall.Errno
	Text  string
	Index int
}

func newFailureState(f *Failure) *failureState {
	if f == nil {
		return nil
	}
	return &failureState{Seqno: f.Seqno, Errno: translate.Errno(f.Err), Text: f.Err.Error(), Index: f.Index}
}

func (s *failureState) failure() *Failure {
	if s == nil {
		return nil
	}
	return &Failure{Seqno: s.Seqno, Err: fmt.Errorf("%s: %w", s.Text, s.Errno), Index: s.Index}
}

// Snapshot stops the file's context and writes its state to w; the file's own state, which Restore
// takes with it, is returned. It is EBUSY while a module is sent or compiled, a channel freed, or a
// batch waits for a point of another channel. The file goes on after Resume.
func (f *File) Snapshot(ctx context.Context, w io.Writer) ([]byte, error) {
	s, ok := f.ctx.(gpu.Snapshotter)
	if !ok {
		return nil, fmt.Errorf("the device takes no snapshots: %w", syscall.EOPNOTSUPP)
	}
	if f.loading != nil || f.compiling != nil {
		return nil, fmt.Errorf("a module is being loaded: %w", syscall.EBUSY)
	}
	if f.sharing() {
		return nil, fmt.Errorf("the file shares memory or events with others: %w", syscall.EOPNOTSUPP)
	}
	for id, ch := range f.channels.All {
		if ch.freeing || ch.waiting.Len() > 0 {
			return nil, fmt.Errorf("channel %d is being freed, or batches of it wait for points: %w", id, syscall.EBUSY)
		}
	}
	objects, err := s.Snapshot(ctx, w)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(f.state(objects))
	if err == nil && len(b) > MaxState {
		err = fmt.Errorf("the file's state has %d bytes, %d are possible: %w", len(b), MaxState, syscall.EFBIG)
	}
	if err != nil {
		return nil, errors.Join(err, s.Resume())
	}
	return b, nil
}

// Resume makes a file go on that Snapshot stopped or Restore made.
func (f *File) Resume() error {
	p, ok := f.ctx.(gpu.Preempter)
	if !ok {
		return fmt.Errorf("the device stops no contexts: %w", syscall.EOPNOTSUPP)
	}
	return p.Resume()
}

// state describes a file whose context is stopped.
func (f *File) state(objects *gpu.Objects) *state {
	s := &state{Kept: f.kept}
	for h, o := range f.objects.All {
		s.Objects = append(s.Objects, objectState{Handle: h, Memory: slices.Index(objects.Memories, o.mem), Size: o.mem.Size(),
			Source: o.pages.Source, System: !o.inVRAM()})
	}
	for id, m := range f.modules.All {
		saved := moduleState{ID: id, Module: slices.Index(objects.Modules, m.Module), Source: m.charged[quota.ModuleText],
			Variables: m.charged[quota.VRAM], Functions: map[uint32]string{}}
		for _, fn := range m.functions {
			if function, err := f.functions.Get(fn); err == nil {
				saved.Functions[fn] = function.Attributes().Name
			}
		}
		s.Modules = append(s.Modules, saved)
	}
	for id, ch := range f.channels.All {
		s.Channels = append(s.Channels, channelState{ID: id, Channel: slices.Index(objects.Channels, ch.dev), Submitted: ch.submitted,
			Done: ch.done.Load(), Failure: newFailureState(ch.failure.Load()), Poison: newFailureState(ch.poison)})
	}
	return s
}

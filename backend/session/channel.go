package session

import (
	"errors"
	"slices"

	"go.uber.org/zap"

	"pvdrm/backend/file"
	"pvdrm/backend/translate"
	"pvdrm/gpu"
	"pvdrm/hypercall"
	"pvdrm/internal/yield"
)

func (s requests) ChannelAlloc(m hypercall.ID) error {
	ch, err := s.file.NewChannel(m.ID)
	if err != nil {
		return err
	}
	s.ring.ResetChannel(m.ID)
	if p, ok := ch.Poller(); ok && yield.Ample { // else the pump naps too soon to be of help
		s.pollers = append(s.pollers, p)
	}
	return nil
}

// freed is a channel that the device has closed, and the request that asked for it.
type freed struct {
	*file.Freeing
	h hypercall.Header
}

// ChannelFree closes the device's channel on a goroutine of its own: what runs there may take as
// long as a launch is allowed to, and others must not wait for it, least of all a guest that
// takes grants back. The pump answers at the end, see channelsFreed.
func (s requests) ChannelFree(m hypercall.ID) error {
	fr, err := s.file.FreeChannel(m.ID)
	if err != nil {
		return err
	}
	if own, ok := fr.Channel.Poller(); ok {
		s.pollers = slices.DeleteFunc(s.pollers, func(p gpu.Poller) bool { return p == own })
	}
	h := s.serving
	s.aside.Go(func() {
		fr.Wait()
		s.hand(func() { s.freed = append(s.freed, freed{Freeing: fr, h: h}) })
	})
	return hypercall.ErrLater
}

// channelsFreed ends the channels that the device is done with.
func (s *Session) channelsFreed() (worked bool, err error) {
	s.mu.Lock()
	list := s.freed
	s.freed = nil
	s.mu.Unlock()
	for _, f := range list {
		if err := s.complete(f.h, nil, s.file.EndFree(f.Freeing)); err != nil {
			return true, err
		}
	}
	return len(list) > 0, nil
}

func (s requests) Exec(m hypercall.Exec) error {
	ch, err := s.file.Channel(m.Channel)
	if err == nil {
		_, err = s.file.Exec(ch, m.Seqno, m.Waits, m.Stream)
	}
	if err == nil {
		s.count.batches.Add(1)
	}
	return err
}

// progress publishes how far channels have come, in the ring.
type progress struct{ *Session }

// Reached implements file.Observer.
func (s progress) Reached(channel uint32, seqno uint64, failed *file.Failure) {
	if failed != nil {
		s.ring.SetFailed(channel, failed.Seqno, uint32(translate.Errno(failed.Err)), uint32(failed.Index))
	}
	s.ring.SetDone(channel, seqno)
}

// Ended implements file.Observer.
func (s progress) Ended(channel uint32, seqno uint64, err error) {
	if lost, is := errors.AsType[*gpu.LostError](err); is {
		s.ring.SetState(hypercall.StateLost)
		if s.lost.CompareAndSwap(false, true) { // once for a context
			s.group.lose(lost.Cause)
			s.log.Warn("GPU context lost", zap.Stringer("cause", lost.Cause), zap.String("kernel", lost.ShownKernel()), zap.Error(lost))
		}
	}
	// Errors are reported at once; other progress when the frontend wants it.
	if (err != nil || s.ring.Wanted(channel, seqno)) && s.ring.WakeFrontend() {
		// It has something to ask soon, for which the pump polls. The pump announces that it is
		// awake before it is, and before the frontend is woken, or that would ring. The
		// kick must come after it: then the pump looks at the queue whatever it does now.
		s.in.Awake()
		s.Kick()
		s.carrier.Notify()
	} else if s.hungry.Load() {
		s.Kick()
	}
}

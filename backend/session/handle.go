package session

import (
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/translate"
	"pvdrm/drm"
	"pvdrm/hypercall"
)

// requests serves the operations, on the pump. Payloads are the session's own copies and valid
// during the call only.
type requests struct{ *Session }

var _ hypercall.Server = requests{}

// handle serves one message. An error ends the session.
func (s *Session) handle(h hypercall.Header, payload []byte) error {
	s.serving = h
	answer, err := h.Op.Serve(requests{s}, payload)
	if err == hypercall.ErrLater {
		return nil
	}
	if err != nil {
		if entry := s.log.Check(zap.DebugLevel, "request failed"); entry != nil {
			entry.Write(zap.String("request", h.Op.Describe(payload)), zap.Error(err))
		}
	}
	return s.complete(h, answer, err)
}

// complete sends the completion of a request, if there is to be one. An error ends
// the session.
func (s *Session) complete(h hypercall.Header, answer []byte, err error) error {
	info, _ := h.Op.Info()
	if err != nil {
		s.count.ops[h.Op.Row()].errors.Add(1)
	}
	if err == nil && info.Async && h.Flags&hypercall.FlagAnswer == 0 {
		return nil
	}
	if failed := s.answer(hypercall.Header{Op: h.Op, ID: h.ID, Errno: uint32(translate.Errno(err))}, answer); failed != nil {
		return failed
	}
	if err != nil && info.Async && s.out.Publish() {
		// Not with the others: it must be there before any point of what comes later is
		// reached, since the caller that waits for that reports the failure.
		s.carrier.Notify()
	}
	return nil
}

func (s requests) Nop() error { return nil }

func (s requests) Properties(owner hypercall.Owner) (hypercall.Properties, error) {
	s.owner.Store(owner.Process)
	return hypercall.Properties{Name: s.device.Properties().Name, Values: s.file.Params()}, nil
}

func (s requests) MemoryInfo() (hypercall.MemoryInfo, error) {
	return hypercall.MemoryInfo{Used: s.file.Used()}, nil
}

func (s requests) Status() (hypercall.Status, error) {
	cause, text := s.file.Status()
	return hypercall.Status{Cause: uint32(cause), Text: text}, nil
}

func (s requests) ReadOutput() (hypercall.Text, error) { return s.file.Output(), nil }

func (s requests) Ask(m hypercall.Ask) (hypercall.Answers, error) {
	values, err := s.file.Ask(drm.Question(m.Question), m.Function, m.Values)
	return hypercall.Answers{Values: values}, err
}

func (s requests) Usage() (hypercall.Usage, error) {
	st := s.device.Stats()
	u := hypercall.Usage{NowNS: uint64(time.Since(epoch)), ComputeNS: uint64(st.ComputeBusy), CopyNS: uint64(st.CopyBusy), Clients: s.group.clients()}
	u.VRAM, u.VRAMFree = s.file.Room()
	return u, nil
}

// epoch is where the times of Usage begin.
var epoch = time.Now()

func (s requests) Counters() (hypercall.Counters, error) {
	c := s.count.snapshot()
	c.Doorbells, c.Interrupts = s.carrier.Counts()
	return c, nil
}

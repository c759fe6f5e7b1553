package session

import (
	"errors"
	"syscall"

	"go.uber.org/zap"

	"pvdrm/backend/translate"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// handler serves one operation. The payload is the session's own copy and valid
// during the call only. What it returns goes into the completion; after errLater
// the handler sees to that itself, with the header in Session.serving.
type handler func(s *Session, payload []byte) (answer []byte, err error)

// errLater is that the completion of a request comes later.
var errLater = errors.New("the request is answered later")

// handlers has one entry for each operation in hypercall.Ops; a test keeps them in step.
var handlers = [...]handler{
	hypercall.OpNop:            func(*Session, []byte) ([]byte, error) { return nil, nil },
	hypercall.OpProperties:     (*Session).properties,
	hypercall.OpMemoryInfo:     (*Session).memoryInfo,
	hypercall.OpGemNew:         (*Session).gemNew,
	hypercall.OpGemGrant:       (*Session).gemGrant,
	hypercall.OpGemClose:       (*Session).gemClose,
	hypercall.OpVMBind:         (*Session).vmBind,
	hypercall.OpChannelAlloc:   (*Session).channelAlloc,
	hypercall.OpChannelFree:    (*Session).channelFree,
	hypercall.OpExec:           (*Session).exec,
	hypercall.OpModuleLoad:     (*Session).moduleLoad,
	hypercall.OpModuleUnload:   (*Session).moduleUnload,
	hypercall.OpModuleFunction: (*Session).moduleFunction,
	hypercall.OpModuleGlobal:   (*Session).moduleGlobal,
	hypercall.OpStatus:         (*Session).status,
	hypercall.OpCounters:       (*Session).counters,
	hypercall.OpGemUnmap:       (*Session).gemUnmap,
	hypercall.OpReadOutput:     (*Session).readOutput,
}

// handle serves one message. An error ends the session.
func (s *Session) handle(h hypercall.Header, payload []byte) error {
	var answer []byte
	var err error = syscall.ENOSYS
	if _, known := h.Op.Info(); known {
		s.serving = h
		answer, err = handlers[h.Op](s, payload)
	}
	if err == errLater {
		return nil
	}
	return s.complete(h, answer, err)
}

// complete sends the completion of a request, if there is to be one. An error ends
// the session.
func (s *Session) complete(h hypercall.Header, answer []byte, err error) error {
	info, _ := h.Op.Info()
	if err != nil {
		s.log.Debug("request failed", zap.Stringer("operation", h.Op), zap.Error(err))
	}
	if err == nil && info.Async && h.Flags&hypercall.FlagAnswer == 0 {
		return nil
	}
	if failed := s.answer(hypercall.Header{Op: h.Op, ID: h.ID, Errno: uint32(translate.Errno(err))}, answer); failed != nil {
		return failed
	}
	if err != nil && info.Async && s.out.Publish() {
		// Not with the others: it must be there before any point of what comes later is
		// reached, since whoever waits for that is told of the failure.
		s.carrier.Notify()
	}
	return nil
}

func (s *Session) properties([]byte) ([]byte, error) {
	p := s.device.Properties()
	return hypercall.Properties{Name: p.Name, Values: translate.Params(p)}.Append(nil), nil
}

func (s *Session) memoryInfo([]byte) ([]byte, error) {
	return hypercall.MemoryInfo{Used: s.device.Stats().VRAMUsed}.Append(nil), nil
}

func (s *Session) status([]byte) ([]byte, error) {
	var st hypercall.Status
	var lost *gpu.LostError
	if err := s.ctx.Err(); errors.As(err, &lost) {
		st = hypercall.Status{Cause: uint32(lost.Cause), Text: lost.Error()}
	} else if err != nil {
		st = hypercall.Status{Cause: uint32(gpu.LostDevice), Text: err.Error()}
	}
	return st.Append(nil), nil
}

func (s *Session) readOutput([]byte) ([]byte, error) {
	p, ok := s.ctx.(gpu.Printer)
	if !ok {
		return nil, nil
	}
	text := make([]byte, hypercall.MaxText)
	return text[:p.ReadOutput(text)], nil
}

func (s *Session) counters([]byte) ([]byte, error) {
	c := s.count.snapshot()
	c.Doorbells, c.Interrupts = s.carrier.Counts()
	return c.Append(nil), nil
}

package session

import (
	"errors"

	"go.uber.org/zap"

	"pvdrm/backend/file"
	"pvdrm/hypercall"
)

// loaded is a module that was compiled, or failed to, and the request with its last part.
type loaded struct {
	*file.Load
	h hypercall.Header
}

// ModuleLoad takes a part of a source out of the bulk area. The last part is answered when the
// module is compiled, see modulesCompiled.
func (s requests) ModuleLoad(m hypercall.ModuleLoad) (hypercall.Text, error) {
	var part []byte // out of order where there is no such part
	if bulk := s.ring.Bulk(); uint64(m.Bytes) <= uint64(len(bulk)) {
		part = bulk[:m.Bytes]
	}
	l, err := s.file.LoadPart(m.Module, m.Name, m.Offset, m.Total, part)
	if l == nil {
		return file.Log(err), err
	}
	h := s.serving
	s.aside.Go(func() {
		l.Compile(s.living)
		s.hand(func() { s.compiled = append(s.compiled, loaded{Load: l, h: h}) })
	})
	return nil, hypercall.ErrLater
}

// modulesCompiled answers the requests whose modules have been compiled, or have failed to.
func (s *Session) modulesCompiled() (worked bool, err error) {
	s.mu.Lock()
	list := s.compiled
	s.compiled = nil
	s.mu.Unlock()
	for _, l := range list {
		err := s.file.EndLoad(l.Load)
		if fault, is := errors.AsType[*file.CompilerFault](err); is {
			s.log.Error("fault of the compiler", zap.Any("panic", fault.Cause), zap.String("in", fault.Where))
		}
		if err != nil {
			s.log.Debug("module refused", zap.Error(err))
		}
		if err := s.complete(l.h, file.Log(err), err); err != nil {
			return true, err
		}
	}
	return len(list) > 0, nil
}

func (s requests) ModuleUnload(m hypercall.ID) error { return s.file.Unload(m.ID) }

func (s requests) ModuleFunction(m hypercall.Symbol) (hypercall.Function, error) {
	attr, err := s.file.Function(m.Module, m.Function, m.Name)
	return hypercall.Function(attr), err
}

func (s requests) ModuleGlobal(m hypercall.Symbol) (hypercall.Global, error) {
	addr, size, err := s.file.Global(m.Module, m.Name)
	return hypercall.Global{Addr: addr, Size: size}, err
}

package session

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// module is a loaded module and the ids of its functions.
type module struct {
	gpu.Module
	functions []uint32
	source    uint64 // bytes
}

// loading is the module source that is being sent in parts. One at a time is
// enough: the frontend sends them one after the other.
type loading struct {
	module uint32
	name   string
	total  uint64
	source []byte
}

func (s *Session) moduleLoad(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeModuleLoad(payload)
	if err != nil {
		return nil, err
	}
	if m.Offset == 0 {
		s.loading = nil
		if err := s.modules.Vacant(m.Module); err != nil {
			return nil, err
		}
		if m.Total == 0 || m.Total > hypercall.MaxSource {
			return nil, fmt.Errorf("module source of %d bytes: %w", m.Total, syscall.EFBIG)
		}
		if s.held[ModuleText]+m.Total > maxSources {
			return nil, fmt.Errorf("modules of %d bytes are loaded, %d more are too many: %w", s.held[ModuleText], m.Total, syscall.ENOSPC)
		}
		s.loading = &loading{module: m.Module, name: moduleName(m.Name), total: m.Total}
	}
	l, bulk := s.loading, s.ring.Bulk()
	if l == nil || l.module != m.Module || l.total != m.Total || m.Offset != uint64(len(l.source)) ||
		m.Bytes == 0 || uint64(m.Bytes) > uint64(len(bulk)) || uint64(m.Bytes) > l.total-m.Offset {
		s.loading = nil
		return nil, fmt.Errorf("part of a module source out of order: %w", syscall.EINVAL)
	}
	l.source = append(l.source, bulk[:m.Bytes]...)
	if uint64(len(l.source)) < l.total {
		return nil, nil
	}
	s.loading = nil
	if err := s.chargeModule(m.Total); err != nil {
		return []byte(err.Error()), err
	}
	mod, err := s.ctx.LoadModule(l.name, l.source)
	if err != nil {
		s.dischargeModule(m.Total)
		text := err.Error()
		return []byte(text[:min(len(text), hypercall.MaxText)]), err
	}
	return nil, s.modules.Put(m.Module, &module{Module: mod, source: m.Total})
}

// moduleName is the name of a module in messages.
func moduleName(name string) string {
	if name == "" {
		return "module"
	}
	return Printable(name)
}

// Printable makes a name that a guest chose fit for messages.
func Printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return '?'
		}
		return r
	}, name)
}

func (s *Session) moduleUnload(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeID(payload)
	if err != nil {
		return nil, err
	}
	mod, err := s.modules.Take(m.ID)
	if err != nil {
		return nil, err
	}
	for _, f := range mod.functions {
		if _, err := s.functions.Take(f); err != nil {
			return nil, err
		}
	}
	s.dischargeModule(mod.source)
	return nil, mod.Close()
}

func (s *Session) moduleFunction(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeSymbol(payload)
	if err != nil {
		return nil, err
	}
	mod, err := s.modules.Get(m.Module)
	if err != nil {
		return nil, err
	}
	if err := s.functions.Vacant(m.Function); err != nil {
		return nil, err
	}
	f, err := mod.Function(m.Name)
	if err != nil {
		return nil, err
	}
	a := f.Attributes()
	if len(a.Params) > hypercall.MaxParams {
		return nil, fmt.Errorf("kernel %s has %d parameters: %w", a.Name, len(a.Params), syscall.E2BIG)
	}
	answer := hypercall.Function{
		ParamBytes: uint32(a.ParamBytes), SharedBytes: uint32(a.SharedBytes), LocalBytes: uint32(a.LocalBytes),
		ConstBytes: uint32(a.ConstBytes), Regs: uint32(a.Regs), MaxThreads: uint32(a.MaxThreads),
	}
	for _, p := range a.Params {
		answer.Params = append(answer.Params, hypercall.FunctionParam{Offset: uint32(p.Offset), Size: uint32(p.Size)})
	}
	if err := s.functions.Put(m.Function, f); err != nil {
		return nil, err
	}
	mod.functions = append(slices.Clip(mod.functions), m.Function)
	return answer.Append(nil), nil
}

func (s *Session) moduleGlobal(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeSymbol(payload)
	if err != nil {
		return nil, err
	}
	mod, err := s.modules.Get(m.Module)
	if err != nil {
		return nil, err
	}
	addr, size, err := mod.Global(m.Name)
	if err != nil {
		return nil, err
	}
	return hypercall.Global{Addr: addr, Size: size}.Append(nil), nil
}

// chargeModule takes a module with a source of so many bytes.
func (s *Session) chargeModule(source uint64) error {
	if err := s.charge(Modules, 1); err != nil {
		return err
	}
	err := s.charge(ModuleText, source)
	if err != nil {
		s.discharge(Modules, 1)
	}
	return err
}

func (s *Session) dischargeModule(source uint64) {
	s.discharge(Modules, 1)
	s.discharge(ModuleText, source)
}

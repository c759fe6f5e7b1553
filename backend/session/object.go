package session

import (
	"fmt"
	"syscall"

	"go.uber.org/zap"

	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// object is a GEM object.
type object struct {
	mem      gpu.Memory
	resource uint32   // of the carrier; 0 for VRAM
	runs     [][]byte // granted pages; nil for VRAM
	unpin    func()   // gives the granted pages back; nil for VRAM
}

// release gives the pages back; the device must be done with them.
func (o *object) release() {
	if o.unpin != nil {
		o.unpin()
		o.unpin = nil
	}
}

func (s *Session) gemNew(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeGemNew(payload)
	if err != nil {
		return nil, err
	}
	if err := s.objects.Vacant(m.Handle); err != nil {
		return nil, err
	}
	if err := s.charge(VRAM, m.Size); err != nil {
		return nil, err
	}
	mem, err := s.ctx.NewVRAM(m.Size)
	if err != nil {
		s.discharge(VRAM, m.Size)
		return nil, err
	}
	return nil, s.objects.Put(m.Handle, &object{mem: mem})
}

func (s *Session) gemGrant(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeGemGrant(payload)
	if err != nil {
		return nil, err
	}
	if err := s.objects.Vacant(m.Handle); err != nil {
		return nil, err
	}
	grant, err := s.carrier.Grant(m.Resource)
	if err != nil {
		return nil, err
	}
	runs, unpin, err := grant.Acquire()
	if err != nil {
		return nil, err
	}
	runs, err = cut(runs, m.Offset, m.Size)
	if err != nil {
		unpin()
		return nil, err
	}
	if err := s.charge(Granted, m.Size); err != nil {
		unpin()
		return nil, err
	}
	mem, err := s.ctx.NewSystem(runs)
	if err != nil {
		s.discharge(Granted, m.Size)
		unpin()
		return nil, err
	}
	s.count.grants.Add(1)
	s.count.grantedBytes.Add(m.Size)
	return nil, s.objects.Put(m.Handle, &object{mem: mem, resource: m.Resource, runs: runs, unpin: unpin})
}

// cut returns the part of runs that starts at offset and is size bytes long.
func cut(runs [][]byte, offset, size uint64) ([][]byte, error) {
	const page = 4096
	if size == 0 || size%page != 0 || offset%page != 0 {
		return nil, fmt.Errorf("object of %d bytes at %d, want whole pages: %w", size, offset, syscall.EINVAL)
	}
	var part [][]byte
	left := size
	for _, r := range runs {
		if offset >= uint64(len(r)) {
			offset -= uint64(len(r))
			continue
		}
		r = r[offset:]
		offset = 0
		r = r[:min(uint64(len(r)), left)]
		part = append(part, r[:len(r):len(r)])
		if left -= uint64(len(r)); left == 0 {
			return part, nil
		}
	}
	return nil, fmt.Errorf("object of %d bytes ends %d bytes behind its grant: %w", size, left, syscall.EINVAL)
}

// gemUnmap drops the mappings of an object that the frontend keeps for later.
func (s *Session) gemUnmap(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeID(payload)
	if err != nil {
		return nil, err
	}
	o, err := s.objects.Get(m.ID)
	if err != nil {
		return nil, err
	}
	if o.runs == nil {
		return nil, fmt.Errorf("object %d is in VRAM: %w", m.ID, syscall.EINVAL)
	}
	// The device forgets the mappings with its memory object, so a new one takes
	// the place: the grant, which costs the guest exits, stays.
	mem, err := s.ctx.NewSystem(o.runs)
	if err != nil {
		return nil, err
	}
	old := o.mem
	o.mem = mem
	return nil, old.Close()
}

func (s *Session) gemClose(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeID(payload)
	if err != nil {
		return nil, err
	}
	o, err := s.objects.Take(m.ID)
	if err != nil {
		return nil, err
	}
	return nil, s.closeObject(o)
}

func (s *Session) closeObject(o *object) error {
	kind := VRAM
	if o.runs != nil {
		kind = Granted
	}
	s.discharge(kind, o.mem.Size())
	err := o.mem.Close()
	o.release()
	return err
}

// dropGrant gives up the objects of a grant that the guest took back while
// they were open, as happens when a guest process dies or lies.
func (s *Session) dropGrant(resource uint32) {
	for handle, o := range s.objects.All {
		if o.unpin == nil || o.resource != resource {
			continue
		}
		if _, err := s.objects.Take(handle); err == nil {
			err = s.closeObject(o)
			s.log.Debug("grant revoked", zap.Uint32("resource", resource), zap.Uint32("handle", handle), zap.Error(err))
		}
	}
}

func (s *Session) vmBind(payload []byte) ([]byte, error) {
	m, err := hypercall.DecodeVMBind(payload)
	if err != nil {
		return nil, err
	}
	for i, op := range m.Ops {
		if err := s.bindOne(op); err != nil {
			return hypercall.BindResult{Index: uint32(i)}.Append(nil), fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil, nil
}

func (s *Session) bindOne(op hypercall.BindOp) error {
	switch op.Op {
	case hypercall.BindMap:
		if op.Flags&^hypercall.BindReadOnly != 0 {
			return fmt.Errorf("flags 0x%x: %w", op.Flags, syscall.EINVAL)
		}
		o, err := s.objects.Get(op.Handle)
		if err != nil {
			return err
		}
		prot := gpu.ProtRead | gpu.ProtWrite
		if op.Flags&hypercall.BindReadOnly != 0 {
			prot = gpu.ProtRead
		}
		if err := s.ctx.Map(op.Addr, o.mem, op.Offset, op.Range, prot); err != nil {
			return err
		}
		const page = 4096
		s.count.pages.Add(op.Range / page)
		return nil
	case hypercall.BindUnmap:
		if op.Flags != 0 || op.Handle != 0 || op.Offset != 0 {
			return fmt.Errorf("unmap with an object or flags: %w", syscall.EINVAL)
		}
		return s.ctx.Unmap(op.Addr, op.Range)
	}
	return fmt.Errorf("bind operation %d: %w", op.Op, syscall.EINVAL)
}

package session

import (
	"fmt"
	"syscall"

	"go.uber.org/zap"

	"pvdrm/backend/file"
	"pvdrm/drm"
	"pvdrm/hypercall"
)

const pageBytes = 4096

func (s requests) GemNew(m hypercall.GemNew) error { return s.file.NewVRAM(m.Handle, m.Size) }

func (s requests) GemGrant(m hypercall.GemGrant) error {
	if err := s.file.ObjectVacant(m.Handle); err != nil {
		return err
	}
	grant, err := s.carrier.Grant(m.Resource)
	if err != nil {
		return err
	}
	runs, unpin, err := grant.Acquire()
	if err != nil {
		return err
	}
	pages := file.Pages{Source: m.Resource, Release: unpin}
	pages.Payer, _ = grant.(file.Payer)
	if pages.Runs, err = cut(runs, m.Offset, m.Size); err == nil {
		err = s.file.NewSystem(m.Handle, pages)
	}
	if err != nil {
		unpin()
		return err
	}
	s.count.grants.Add(1)
	s.count.grantedBytes.Add(m.Size)
	return nil
}

// cut returns the part of runs that starts at offset and is size bytes long.
func cut(runs [][]byte, offset, size uint64) ([][]byte, error) {
	if size == 0 || size%pageBytes != 0 || offset%pageBytes != 0 {
		return nil, fmt.Errorf("object of %d bytes at %d, want whole pages: %w", size, offset, syscall.EINVAL)
	}
	total := uint64(0)
	for _, r := range runs {
		total += uint64(len(r))
	}
	if offset == 0 && size == total {
		return runs, nil
	}
	part := make([][]byte, 0, len(runs))
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

// GemUnmap drops the mappings of an object that the frontend keeps for later.
func (s requests) GemUnmap(m hypercall.ID) error { return s.file.UnmapObject(m.ID) }

func (s requests) GemClose(m hypercall.ID) error { return s.file.CloseObject(m.ID) }

// dropGrant gives up the objects of a grant that the guest took back while they were open.
func (s *Session) dropGrant(resource uint32) {
	if closed, err := s.file.Revoke(resource); len(closed) > 0 {
		s.log.Debug("grant revoked", zap.Uint32("resource", resource), zap.Uint32s("handles", closed), zap.Error(err))
	}
}

func (s requests) VMBind(m hypercall.VMBind) (hypercall.BindResult, error) {
	done, err := s.file.Bind(m.Ops)
	pages := uint64(0)
	for _, op := range m.Ops[:done] {
		if op.Op == drm.BindMap {
			pages += op.Range / pageBytes
		}
	}
	s.count.pages.Add(pages)
	return hypercall.BindResult{Index: uint32(done)}, err
}

package cuda

import (
	"errors"
	"fmt"
	"syscall"

	"pvdrm/drm"
)

// newPlaced makes an object whose memory has the same address in the program and on
// the GPU.
func (h *heap) newPlaced(size uint64) (*object, error) {
	o := &object{size: size}
	var err error
	if o.handle, err = h.file.GemNew(size, h.domain, drm.GemDirty); err != nil {
		return nil, fmt.Errorf("an object of %d bytes: %w", size, err)
	}
	// Not used here, but it says to whoever listens that the program has the memory.
	if _, err = h.file.GemMap(o.handle); err == nil {
		err = h.place(o)
	}
	if err != nil {
		return nil, errors.Join(err, h.file.GemClose(o.handle))
	}
	err = h.bind(o)
	if err == nil && h.made != nil {
		err = h.made(o)
	}
	if err != nil {
		return nil, errors.Join(err, h.closeObject(o))
	}
	return o, nil
}

// place finds addresses for o that are free in the program, too: memory of another
// context may lie there. Each try skips twice as much as the one before.
func (h *heap) place(o *object) (err error) {
	var skipped []uint64
	defer func() {
		for _, addr := range skipped {
			_, ferr := h.space.Free(addr)
			err = errors.Join(err, ferr)
		}
	}()
	take := func(size uint64) (uint64, error) {
		addr, err := h.space.Alloc(size, h.window.page)
		if err != nil {
			err = fmt.Errorf("%d bytes of addresses that are free in the program and on the GPU: %w", o.size, err)
		}
		return addr, err
	}
	for skip := o.size; ; skip *= 2 {
		addr, err := take(o.size)
		if err != nil {
			return err
		}
		if o.mem, err = h.placer.GemMapAt(o.handle, addr, o.size); err == nil {
			o.addr = addr
			return nil
		}
		if _, ferr := h.space.Free(addr); ferr != nil || !errors.Is(err, syscall.EEXIST) {
			return errors.Join(err, ferr)
		}
		if addr, err = take(skip); err != nil {
			return err
		}
		skipped = append(skipped, addr)
	}
}

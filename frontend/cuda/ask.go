package cuda

import "pvdrm/drm"

// Ask asks the driver of the GPU what only it can answer. The function may be nil. It is ErrNotSupported where there
// is no such driver, and ErrInvalidValue for what it refuses.
func (c *Context) Ask(call string, q drm.Question, f *Function, values ...uint64) ([]uint64, error) {
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	a, ok := c.file.(drm.Asker)
	if !ok {
		return nil, errorf(call, ErrNotSupported, "the device does not answer question %d", q)
	}
	id := uint32(0)
	if f != nil {
		if err := f.m.loaded(call); err != nil {
			return nil, err
		}
		id = f.id
	}
	answer, err := a.Ask(q, id, values)
	if err != nil {
		return nil, c.fail(call, err)
	}
	return answer, nil
}

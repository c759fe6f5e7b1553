package virgl

import (
	"fmt"

	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gem/quota"
	"pvdrm/internal/hostmem"
)

func (p *pump) createContext(c *command) error {
	id := c.words[0]
	if p.contexts[id] != nil {
		return fmt.Errorf("context %d exists", id)
	}
	ctx := &context{lost: true}
	p.contexts[id] = ctx
	if err := p.charge(quota.Contexts, 1); err != nil {
		return err
	}
	ctx.charged = true
	if err := p.need(); err != nil {
		return err
	}
	ctx.lost = false
	return p.ask(c, func(err error) {
		ctx.lost = ctx.lost || err != nil
		c.end(err)
	})
}

func (p *pump) destroyContext(c *command) error {
	id := c.words[0]
	ctx := p.contexts[id]
	if ctx == nil {
		return fmt.Errorf("no context %d", id)
	}
	p.dropContext(id, ctx)
	if ctx.lost {
		c.end(nil)
		return nil
	}
	return p.ask(c, c.end)
}

func (p *pump) dropContext(id uint32, ctx *context) {
	delete(p.contexts, id)
	if ctx.charged {
		p.discharge(quota.Contexts, 1)
	}
}

func (p *pump) createResource(c *command) error {
	id := c.words[0]
	if p.resources[id] != nil {
		return fmt.Errorf("resource %d exists", id)
	}
	res := &resource{lost: true}
	p.resources[id] = res
	bytes, err := sizeOf(argsOf(c.words[1:]))
	if err != nil {
		return fmt.Errorf("resource %d: %w", id, err)
	}
	if err := p.need(); err != nil {
		return err
	}
	if err := p.charge(quota.VRAM, bytes); err != nil {
		return err
	}
	res.bytes, res.lost = bytes, false
	return p.ask(c, func(err error) {
		if err != nil {
			res.lost = true
			p.giveBack(res)
		}
		c.end(err)
	})
}

// giveBack gives back what a resource has: the worker has it no more.
func (p *pump) giveBack(res *resource) {
	p.discharge(quota.VRAM, res.bytes)
	res.bytes = 0
	p.release(res)
}

// release lets go of the pages of a resource, if it has some.
func (p *pump) release(res *resource) {
	if res.pages != nil {
		p.discharge(quota.Granted, res.pages.Size())
		res.pages.Release()
		res.pages = nil
	}
}

func (p *pump) destroyResource(c *command) error {
	id := c.words[0]
	res := p.resources[id]
	if res == nil {
		return fmt.Errorf("no resource %d", id)
	}
	delete(p.resources, id)
	if res.lost {
		p.dropPages(res)
		p.giveBack(res)
		c.end(nil)
		return nil
	}
	err := p.ask(c, func(err error) {
		p.dropPages(res)
		p.giveBack(res)
		c.end(err)
	})
	if err != nil { // the worker is lost, so it has nothing of this any more
		p.giveBack(res)
	}
	return err
}

func (p *pump) attachBacking(c *command) error {
	id := c.words[0]
	res := p.resources[id]
	switch {
	case res == nil || res.lost:
		return fmt.Errorf("resource %d: %w", id, ErrLost)
	case res.pages != nil:
		return fmt.Errorf("resource %d has pages already", id)
	}
	if err := p.charge(quota.Granted, c.pages.Size()); err != nil {
		return err
	}
	spans := c.pages.Spans()
	payload := make([]byte, 0, len(spans)*spanBytes)
	for _, s := range spans {
		region, err := p.region(s.Region)
		if err != nil { // the worker is lost
			p.discharge(quota.Granted, c.pages.Size())
			return err
		}
		e := span{region, s.FileOffset(), s.Len}
		payload = e.append(payload)
	}
	p.use(c.pages, 1)
	res.pages, c.pages = c.pages, nil
	c.payload = payload
	return p.ask(c, func(err error) {
		if err != nil {
			p.dropPages(res)
		}
		c.end(err)
	})
}

func (p *pump) detachBacking(c *command) error {
	id := c.words[0]
	res := p.resources[id]
	if res == nil || res.lost || res.pages == nil {
		c.end(nil) // the worker has no page of it
		return nil
	}
	return p.ask(c, func(err error) {
		p.dropPages(res)
		c.end(err)
	})
}

// dropPages lets go of the pages of a resource, which the worker does not use any
// more.
func (p *pump) dropPages(res *resource) {
	if res.pages == nil {
		return
	}
	p.use(res.pages, -1)
	p.release(res)
}

// use counts one resource more, or less, that has pages in its regions. The worker
// unmaps those that no resource has.
func (p *pump) use(pages *virtgpu.Pages, n int) {
	var last *hostmem.Region
	for _, s := range pages.Spans() {
		if s.Region == last {
			continue
		}
		last = s.Region
		r := p.regions[last]
		if r == nil {
			continue // of a worker that is lost
		}
		if r.users += n; r.users == 0 {
			delete(p.regions, last)
			q := request{op: opForget}
			q.words[0] = r.id
			_ = p.send(&q, nil, -1, func(error) {}) // without the worker there is nothing to unmap
		}
	}
}

// region is the number of a region of the guest's RAM at the worker, which gets it
// if it does not have it yet.
func (p *pump) region(mem *hostmem.Region) (uint32, error) {
	if r := p.regions[mem]; r != nil {
		return r.id, nil
	}
	p.lastID++
	size := mem.Offset() + uint64(len(mem.Bytes()))
	if err := p.mapMemory(p.lastID, mem.FD(), size); err != nil {
		return 0, err
	}
	p.regions[mem] = &region{id: p.lastID}
	return p.lastID, nil
}

// mapMemory has the worker map memory.
func (p *pump) mapMemory(id uint32, fd int, size uint64) error {
	q := request{op: opMemory}
	q.words[0], q.words[1], q.words[2] = id, low(size), high(size)
	return p.send(&q, nil, fd, func(error) {})
}

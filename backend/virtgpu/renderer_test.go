package virtgpu_test

import (
	"errors"
	"sync"

	"pvdrm/backend/virtgpu"
)

// renderer is a Renderer that only remembers what it was asked.
type renderer struct {
	mu       sync.Mutex
	contexts map[uint32]*guestContext
	refuse   error // of the next NewContext
}

func newRenderer() *renderer { return &renderer{contexts: make(map[uint32]*guestContext)} }

func (r *renderer) Capsets() []virtgpu.Capset {
	return []virtgpu.Capset{
		{ID: 40, Version: 3, Data: []byte("the first capability set")},
		{ID: 41, Version: 1, Data: []byte("the second")},
	}
}

func (r *renderer) NewContext(id uint32, name string) (virtgpu.Context, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refuse; err != nil {
		return nil, err
	}
	c := &guestContext{name: name, resources: make(map[uint32]*virtgpu.Resource), submits: make(chan submit, 64)}
	r.contexts[id] = c
	return c, nil
}

func (r *renderer) context(id uint32) *guestContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contexts[id]
}

// releaseAll lets go of the pages that tests acquired through hold.
func (r *renderer) releaseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.contexts {
		for _, p := range c.pages {
			p.Release()
		}
		c.pages = nil
	}
}

type submit struct {
	cmd   string
	fence func()
}

// guestContext is a Context that holds all fences. A command of "no" is refused.
type guestContext struct {
	name    string
	submits chan submit

	mu        sync.Mutex
	resources map[uint32]*virtgpu.Resource
	closed    bool
	pages     []*virtgpu.Pages
}

func (c *guestContext) Submit(cmd []byte, fence func()) error {
	if string(cmd) == "no" {
		return errors.New("refused as asked")
	}
	c.submits <- submit{string(cmd), fence}
	return nil
}

func (c *guestContext) Attach(r *virtgpu.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resources[r.ID()] = r
}

func (c *guestContext) Detach(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.resources, id)
}

func (c *guestContext) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

func (c *guestContext) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *guestContext) resource(id uint32) *virtgpu.Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resources[id]
}

// hold acquires the pages of a resource; the end of the test releases them.
func (c *guestContext) hold(id uint32) (*virtgpu.Pages, error) {
	p, err := c.resource(id).Acquire()
	if err == nil {
		c.mu.Lock()
		c.pages = append(c.pages, p)
		c.mu.Unlock()
	}
	return p, err
}

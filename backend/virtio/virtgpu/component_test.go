package virtgpu_test

import (
	"bytes"
	"errors"
	"sync"

	"pvdrm/backend/virtio/virtgpu"
)

// pages is a Component that remembers what it was asked. Its commands begin with a bell.
type pages struct {
	mu       sync.Mutex
	contexts map[uint32]*guestContext
	refuse   error // of the next NewContext
}

// Marks of its commands and resources.
const (
	bell    = "bell"
	ownFlag = 1 << 30
)

func newPages() *pages { return &pages{contexts: make(map[uint32]*guestContext)} }

func (r *pages) Capsets() []virtgpu.Capset {
	return []virtgpu.Capset{
		{ID: 40, Version: 3, Data: []byte("the first capability set")},
		{ID: 41, Version: 1, Data: []byte("the second")},
	}
}

func (r *pages) Recognizes(cmd []byte) bool { return bytes.HasPrefix(cmd, []byte(bell)) }
func (r *pages) Owns(a *virtgpu.Args) bool  { return a.CreateFlag&ownFlag != 0 }
func (r *pages) Hints() bool                { return true }
func (r *pages) NewContext(id uint32, name string) (virtgpu.Context, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refuse; err != nil {
		return nil, err
	}
	c := &guestContext{name: name, resources: make(map[uint32]*virtgpu.Resource), submits: make(chan submit, 64)}
	r.contexts[id] = c
	return c, nil
}

func (r *pages) context(id uint32) *guestContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contexts[id]
}

// releaseAll lets go of the pages that tests acquired through hold.
func (r *pages) releaseAll() {
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

func (c *guestContext) Submit(cmd []byte, fenced bool, done func(error)) {
	if string(cmd) == "no" {
		done(errors.New("refused as asked"))
		return
	}
	sub := submit{cmd: string(cmd)}
	if fenced {
		sub.fence = func() { done(nil) }
	} else {
		defer done(nil)
	}
	c.submits <- sub
}

func (c *guestContext) Attach(r *virtgpu.Resource, done func(error)) {
	c.mu.Lock()
	c.resources[r.ID()] = r
	c.mu.Unlock()
	done(nil)
}

func (c *guestContext) Detach(id uint32, done func(error)) {
	c.mu.Lock()
	delete(c.resources, id)
	c.mu.Unlock()
	done(nil)
}

func (c *guestContext) Transfer(_ virtgpu.Transfer, done func(error)) { done(nil) }

func (c *guestContext) Close(done func(error)) {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	done(nil)
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

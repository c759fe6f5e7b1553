package virtgpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/backend/virtio/vhostuser/vhosttest"
	"pvdrm/backend/virtio/virtgpu"
)

// keepers is a Component whose contexts use the pages of all that is attached to them, and let go
// of them when the test ends it.
type keepers struct {
	mu    sync.Mutex
	slow  bool
	out   []func()        // each ends one Detach or Close
	inUse map[int][]usage // by the number that is written in the page
}

// usage is a context's use of a page since a command of the guest.
type usage struct {
	ctx     string
	command int
}

type keeper struct {
	all      *keepers
	name     string
	attached map[uint32]*virtgpu.Resource
	pages    map[uint32][]*virtgpu.Pages // by resource
}

func (k *keepers) Capsets() []virtgpu.Capset { return capsets{{ID: 40, Data: []byte("x")}} }

func (k *keepers) Recognizes([]byte) bool  { return false }
func (k *keepers) Owns(*virtgpu.Args) bool { return false }
func (k *keepers) Hints() bool             { return true }

func (k *keepers) NewContext(_ uint32, name string) (virtgpu.Context, error) {
	return &keeper{all: k, name: name, attached: map[uint32]*virtgpu.Resource{}, pages: map[uint32][]*virtgpu.Pages{}}, nil
}

// Submit uses all pages that there are. The command is its number.
func (c *keeper) Submit(cmd []byte, _ bool, done func(error)) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	for id, r := range c.attached {
		if p, err := r.Acquire(); err == nil {
			c.pages[id] = append(c.pages[id], p)
			n := pageNumber(p.Runs()[0])
			c.all.inUse[n] = append(c.all.inUse[n], usage{c.name, int(binary.LittleEndian.Uint32(cmd))})
		}
	}
	done(nil)
}

func (c *keeper) Attach(r *virtgpu.Resource, done func(error)) {
	c.all.mu.Lock()
	c.attached[r.ID()] = r
	c.all.mu.Unlock()
	done(nil)
}

func (c *keeper) Transfer(_ virtgpu.Transfer, done func(error)) { done(nil) }

func (c *keeper) Detach(id uint32, done func(error)) {
	c.all.mu.Lock()
	delete(c.attached, id)
	c.all.mu.Unlock()
	c.all.later(func() {
		c.release(id)
		done(nil)
	})
}

func (c *keeper) Close(done func(error)) {
	c.all.later(func() {
		for id := range c.pages {
			c.release(id)
		}
		done(nil)
	})
}

func (c *keeper) release(id uint32) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	for _, p := range c.pages[id] {
		n := pageNumber(p.Runs()[0])
		c.all.inUse[n] = slices.DeleteFunc(c.all.inUse[n], func(u usage) bool { return u.ctx == c.name })
		p.Release()
	}
	delete(c.pages, id)
}

// pageNumber is what the test has written into a page.
func pageNumber(page []byte) int { return int(binary.LittleEndian.Uint32(page)) }

// later keeps the end of a Detach or Close for the test.
func (k *keepers) later(end func()) {
	k.mu.Lock()
	slow := k.slow
	if slow {
		k.out = append(k.out, end)
	}
	k.mu.Unlock()
	if !slow {
		end()
	}
}

// end ends the nth that is out.
func (k *keepers) end(n int) {
	k.mu.Lock()
	end := k.out[n]
	k.out = slices.Delete(k.out, n, n+1)
	k.mu.Unlock()
	end()
}

func (k *keepers) outstanding() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.out)
}

// hurry ends all that is out, and all that comes until the test wants it slow again.
func (k *keepers) hurry(hurry bool) {
	k.mu.Lock()
	k.slow = !hurry
	k.mu.Unlock()
	for hurry && k.outstanding() > 0 {
		k.end(0)
	}
}

// users are the contexts that use a page since before a command.
func (k *keepers) users(page, command int) (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, u := range k.inUse[page] {
		if u.command < command {
			names = append(names, u.ctx)
		}
	}
	return names
}

// orderGuest is a guest that sends commands and does not wait for them, on a device whose
// contexts are slow to let go of pages, and checks in which order they are answered.
type orderGuest struct {
	*gpu
	rend  *keepers
	pages []entry // each backs one resource at most
	used  int

	sent   []*sentCommand
	byHead map[uint16]*sentCommand // that were not answered
	made   int                     // contexts
	live   map[uint32]string       // name of the context that has an id
	backed map[uint32]*sentCommand // what gave a resource its page
}

// sentCommand is one command, and what became of it.
type sentCommand struct {
	typ, ctx, res uint32
	fenced        bool
	page          int    // of RESOURCE_ATTACH_BACKING
	name          string // of CTX_CREATE
	answer        []byte
	free          bool // it had nothing to wait for
	number        int
	done          bool
}

func (c *sentCommand) String() string {
	return fmt.Sprintf("%#x(%d, %d)", c.typ, c.ctx, c.res)
}

// takes reports whether the command takes pages away.
func (c *sentCommand) takes() bool {
	return c.typ == unref || c.typ == detachBacking || c.typ == ctxDetach || c.typ == ctxDestroy
}

// follows reports whether c must be answered after an earlier command.
func (c *sentCommand) follows(earlier *sentCommand) bool {
	alters := func(c *sentCommand) (ctx, res bool) {
		switch c.typ {
		case ctxCreate, ctxDestroy:
			return true, false
		case create3D, unref, attachBacking, detachBacking:
			return false, true
		}
		return false, false
	}
	sameCtx, sameRes := c.ctx != 0 && c.ctx == earlier.ctx, c.res != 0 && c.res == earlier.res
	ctx, res := alters(c)
	_, earlierRes := alters(earlier)
	// An end of a context overtakes what else the context waits for; what comes after it does not.
	return sameCtx && sameRes || sameRes && (res || earlierRes) ||
		sameCtx && (earlier.typ == ctxDestroy || earlier.typ == ctxCreate || ctx && !earlier.takes())
}

// mayWaitFor reports whether c may have to wait for an earlier command that was not answered.
func (c *sentCommand) mayWaitFor(earlier *sentCommand) bool {
	sameCtx, sameRes := c.ctx != 0 && c.ctx == earlier.ctx, c.res != 0 && c.res == earlier.res
	detaching := earlier.typ == ctxDetach && earlier.free // only the resource in this context is busy
	return sameRes || sameCtx && !detaching ||
		c.res != 0 && earlier.typ == ctxDestroy || // it holds what was attached
		c.fenced && earlier.fenced
}

// send sends a command and a marker after it, and takes the answers that come before the marker's.
func (g *orderGuest) send(t *rapid.T, c *sentCommand, body ...[]byte) {
	c.number = len(g.sent)
	fence := uint64(0)
	if c.fenced {
		fence = uint64(c.number + 1)
	}
	cmd := header(c.typ, c.ctx, fence)
	for _, b := range body {
		cmd = append(cmd, b...)
	}
	var head uint16
	head, c.answer = g.control.Send(cmd, 24)
	g.byHead[head] = c
	c.free = !slices.ContainsFunc(g.sent, func(earlier *sentCommand) bool { return !earlier.done && c.mayWaitFor(earlier) })
	g.sent = append(g.sent, c)
	g.mark(t)
	if c.free && !c.takes() {
		require.True(t, c.done, "%v waits, and nothing that it is about is busy", c)
	}
}

// context sends CTX_CREATE.
func (g *orderGuest) context(t *rapid.T, c *sentCommand) {
	g.made++
	c.name = fmt.Sprintf("context %d", g.made)
	g.send(t, c, words(uint32(len(c.name)), 0), append([]byte(c.name), make([]byte, 64-len(c.name))...))
}

// back sends RESOURCE_ATTACH_BACKING with a page that nothing has had yet.
func (g *orderGuest) back(t *rapid.T, res uint32) {
	c := &sentCommand{typ: attachBacking, res: res, page: g.used}
	g.send(t, c, words(res, 1), entries(g.pages[g.used:][:1]))
	g.used++
}

// mark takes all answers that come before that of a command that is about nothing.
func (g *orderGuest) mark(t *rapid.T) {
	head, _ := g.control.Send(append(header(getCapsetInfo, 0, 0), words(0, 0)...), 40)
	for g.wait(t) != head {
	}
}

// wait takes an answer.
func (g *orderGuest) wait(t *rapid.T) (head uint16) {
	head, _ = g.control.Wait()
	if c := g.byHead[head]; c != nil {
		delete(g.byHead, head)
		g.answered(t, c)
	}
	return head
}

// answered checks that no earlier command was to be answered before, and that what a command took
// away is not used.
func (g *orderGuest) answered(t *rapid.T, c *sentCommand) {
	c.done = true
	fenced := false // an earlier fence is out, which holds up the answers to commands with later ones
	for _, earlier := range g.sent {
		if earlier == c {
			break
		}
		if earlier.done {
			continue
		}
		require.False(t, c.follows(earlier) && !(fenced && earlier.fenced), "%v was answered before %v", c, earlier)
		require.False(t, c.fenced && earlier.fenced && earlier.takes(), "the fence of %v signals that of %v", c, earlier)
		fenced = fenced || earlier.fenced
	}
	if binary.LittleEndian.Uint32(c.answer) != respOK {
		return
	}
	switch c.typ {
	case ctxCreate:
		g.live[c.ctx] = c.name
	case attachBacking:
		g.backed[c.res] = c
	case unref, detachBacking:
		require.Empty(t, g.users(c), "%v is answered, and its pages are used", c)
		if by := g.backed[c.res]; by != nil && by.number < c.number {
			delete(g.backed, c.res)
		}
	case ctxDetach:
		require.NotContains(t, g.users(c), g.live[c.ctx], "%v is answered, and its pages are used", c)
	case ctxDestroy:
		for page := range g.pages {
			require.NotContains(t, g.rend.users(page, c.number), g.live[c.ctx], "%v is answered, and pages are used", c)
		}
		delete(g.live, c.ctx)
	}
}

// users are the contexts that use the pages of a command's resource since before it.
func (g *orderGuest) users(c *sentCommand) []string {
	by := g.backed[c.res]
	if by == nil || by.number > c.number { // an answer that a fence held up comes late
		return nil
	}
	return g.rend.users(by.page, c.number)
}

// rest ends all that is out and takes all answers.
func (g *orderGuest) rest(t *rapid.T) {
	g.rend.hurry(true)
	for len(g.byHead) > 0 {
		g.wait(t)
	}
}

// orderID numbers contexts and resources.
var orderID = rapid.Uint32Range(1, 2)

// room skips a step that finds no place for its commands.
func (g *orderGuest) room(t *rapid.T) {
	if len(g.byHead) > 18 {
		t.Skip("the queue is full")
	}
}

// about sends a command with a body, about a context or a resource or both.
func (g *orderGuest) about(typ uint32, ctx, res bool, body func(c *sentCommand) [][]byte) func(*rapid.T) {
	return func(t *rapid.T) {
		g.room(t)
		c := &sentCommand{typ: typ, fenced: rapid.Bool().Draw(t, "fenced")}
		if ctx {
			c.ctx = orderID.Draw(t, "context")
		}
		if res {
			c.res = orderID.Draw(t, "resource")
		}
		g.send(t, c, body(c)...)
	}
}

// begin does what a program does first.
func (g *orderGuest) begin(t *rapid.T) {
	g.room(t)
	if g.used == len(g.pages) {
		t.Skip("there are no pages left")
	}
	ctx, res := orderID.Draw(t, "context"), orderID.Draw(t, "resource")
	g.context(t, &sentCommand{typ: ctxCreate, ctx: ctx})
	g.send(t, &sentCommand{typ: create3D, res: res}, words(res), make([]byte, 44))
	g.back(t, res)
	g.send(t, &sentCommand{typ: ctxAttach, ctx: ctx, res: res}, words(res, 0))
	g.send(t, &sentCommand{typ: submit3D, ctx: ctx}, words(4, 0), words(uint32(len(g.sent))))
}

// restart resets the device, and ends what is out while it waits.
func (g *orderGuest) restart(t *rapid.T) {
	var ends sync.WaitGroup
	ends.Go(func() {
		time.Sleep(time.Millisecond) // mostly the device waits by then; it need not
		g.rend.hurry(true)
	})
	g.reset()
	ends.Wait()
	for page := range g.pages {
		require.Empty(t, g.rend.users(page, math.MaxInt), "used after a reset")
	}
	g.rend.hurry(false)
	clear(g.byHead)
	clear(g.live)
	clear(g.backed)
	g.sent = nil
}

// Commands that take pages away are answered when nothing uses them any more; those about the same
// are answered in order; others do not wait; a reset ends everything.
func TestOrder(t *testing.T) {
	rend := &keepers{inUse: map[int][]usage{}}
	dev, err := virtgpu.New(virtgpu.Config{Components: []virtgpu.Component{rend}})
	require.NoError(t, err)
	base := startGPU(t, nil, dev)
	t.Cleanup(func() { rend.hurry(true) }) // before the guest goes, which waits for it
	pages := base.pages(64)
	for i, page := range pages {
		copy(base.Bytes(page.addr, 4), vhosttest.Words(uint32(i)))
	}
	rapid.Check(t, func(t *rapid.T) {
		g := &orderGuest{gpu: base, rend: rend, pages: pages, byHead: map[uint16]*sentCommand{},
			live: map[uint32]string{}, backed: map[uint32]*sentCommand{}}
		rend.hurry(true) // of a run that failed
		g.reset()
		rend.hurry(false)
		resource := func(c *sentCommand) [][]byte { return [][]byte{words(c.res, 0)} }
		t.Repeat(map[string]func(*rapid.T){
			"create":  g.about(create3D, false, true, func(c *sentCommand) [][]byte { return [][]byte{words(c.res), make([]byte, 44)} }),
			"unref":   g.about(unref, false, true, resource),
			"unback":  g.about(detachBacking, false, true, resource),
			"attach":  g.about(ctxAttach, true, true, resource),
			"detach":  g.about(ctxDetach, true, true, resource),
			"destroy": g.about(ctxDestroy, true, false, func(*sentCommand) [][]byte { return nil }),
			"use":     g.about(submit3D, true, false, func(*sentCommand) [][]byte { return [][]byte{words(4, 0), words(uint32(len(g.sent)))} }),
			"move":    g.about(transferTo3D, true, true, func(c *sentCommand) [][]byte { return [][]byte{make([]byte, 32), words(c.res, 0, 0, 0)} }),
			"context": func(t *rapid.T) {
				g.room(t)
				g.context(t, &sentCommand{typ: ctxCreate, ctx: orderID.Draw(t, "context"), fenced: rapid.Bool().Draw(t, "fenced")})
			},
			"back": func(t *rapid.T) {
				g.room(t)
				if g.used == len(g.pages) {
					t.Skip("there are no pages left")
				}
				g.back(t, orderID.Draw(t, "resource"))
			},
			"begin": g.begin,
			"end": func(t *rapid.T) {
				if rend.outstanding() == 0 {
					t.Skip("nothing is out")
				}
				rend.end(rapid.IntRange(0, rend.outstanding()-1).Draw(t, "which"))
				g.mark(t)
			},
			"reset": g.restart,
		})
		g.rest(t)
	})
}

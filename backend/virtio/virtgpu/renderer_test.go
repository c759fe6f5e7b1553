package virtgpu_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/virtio/virtgpu"
)

// recorder is a Renderer that remembers what it was asked. Commands end at once, but
// for submissions, which end when the test ends them.
type recorder struct {
	mu      sync.Mutex
	calls   []string
	pages   map[uint32]*virtgpu.Pages
	submits chan func(error)
	reads   chan glRead
	fail    error
}

// glRead is a ReadPixels that the test answers.
type glRead struct {
	what string
	done func([]byte, error)
}

func newRecorder() *recorder {
	return &recorder{pages: map[uint32]*virtgpu.Pages{}, submits: make(chan func(error), 64), reads: make(chan glRead, 64)}
}

func (g *recorder) note(done func(error), format string, args ...any) {
	g.mu.Lock()
	g.calls = append(g.calls, fmt.Sprintf(format, args...))
	err := g.fail
	g.mu.Unlock()
	if done != nil {
		done(err)
	}
}

// took returns the calls since the last time.
func (g *recorder) took() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := g.calls
	g.calls = nil
	return calls
}

func (g *recorder) Capsets() []virtgpu.Capset { return []virtgpu.Capset{{ID: 2, Version: 2}} }
func (g *recorder) Recognizes([]byte) bool    { return false }
func (g *recorder) Owns(*virtgpu.Args) bool   { return false }
func (g *recorder) Hints() bool               { return false }
func (g *recorder) NewContext(id uint32, name string) (virtgpu.Context, error) {
	g.note(nil, "context %d %s", id, name)
	return recorderContext{g, id}, nil
}
func (g *recorder) CreateResource(id uint32, a virtgpu.Args, done func(error)) {
	g.note(done, "resource %d %dx%d", id, a.Width, a.Height)
}
func (g *recorder) drop(id uint32) {
	if p := g.pages[id]; p != nil {
		delete(g.pages, id)
		p.Release()
	}
}
func (g *recorder) DestroyResource(id uint32, done func(error)) {
	g.drop(id)
	g.note(done, "end resource %d", id)
}
func (g *recorder) AttachBacking(id uint32, p *virtgpu.Pages, done func(error)) {
	g.pages[id] = p
	g.note(done, "pages %d %d", id, p.Size())
}
func (g *recorder) DetachBacking(id uint32, done func(error)) {
	g.drop(id)
	g.note(done, "end pages %d", id)
}
func (g *recorder) ReadPixels(id, x, y, w, h uint32, done func([]byte, error)) {
	g.reads <- glRead{fmt.Sprintf("%d %dx%d+%d+%d", id, w, h, x, y), done}
}
func (g *recorder) Reset() {
	for id := range g.pages {
		g.drop(id)
	}
	g.note(nil, "reset")
}

// recorderContext is a context of a recorder.
type recorderContext struct {
	*recorder
	id uint32
}

func (c recorderContext) Close(done func(error)) { c.note(done, "end context %d", c.id) }
func (c recorderContext) Attach(r *virtgpu.Resource, done func(error)) {
	c.note(done, "attach %d %d", c.id, r.ID())
}
func (c recorderContext) Detach(id uint32, done func(error)) {
	c.note(done, "detach %d %d", c.id, id)
}
func (c recorderContext) Transfer(t virtgpu.Transfer, done func(error)) {
	c.note(done, "transfer %d %+v", c.id, t)
}
func (c recorderContext) Submit(cmd []byte, fenced bool, done func(error)) {
	c.note(nil, "submit %d %q %v", c.id, cmd, fenced)
	c.submits <- done
}

// newRenderingGPU starts a device with a renderer behind the other component.
func newRenderingGPU(t testing.TB) (*gpu, *recorder) {
	t.Helper()
	gl, r := newRecorder(), newPages()
	g := newGPUWith(t, r, virtgpu.Config{Components: []virtgpu.Component{r, gl}})
	return g, gl
}

// createFor makes a resource of w by h pixels, with the mark of the first component or without.
func (g *gpu) createFor(id, w, h, flags uint32) {
	g.t.Helper()
	g.ok(create3D, 0, words(id, 2, 1, 2, w, h, 1, 1, 0, 0, flags, 0))
}

var doorbell = []byte(bell + "!")

// A context is OpenGL's or PVDRM's by what the guest does with it first, and
// resources go where they belong.
func TestContextsOfBothKinds(t *testing.T) {
	g, gl := newRenderingGPU(t)
	require.Equal(t, words(2, 2, 0, 0), g.want(respCapsetInfo, getCapsetInfo, 0, words(2, 0)), "behind those of PVDRM")

	g.ok(ctxCreate, 1, words(3, 0), append([]byte("gdev"), make([]byte, 60)...))
	g.ok(ctxCreate, 2, words(4, 0), append([]byte("mesa"), make([]byte, 60)...))
	require.Empty(t, gl.took())
	require.Nil(t, g.rend.context(1), "nothing is known of it yet")

	g.createFor(10, 4096, 1, ownFlag)
	require.Empty(t, gl.took())
	g.ok(ctxAttach, 1, words(10, 0))
	g.ok(submit3D, 1, words(uint32(len(doorbell)), 0), doorbell)
	require.Equal(t, string(doorbell), (<-g.rend.context(1).submits).cmd)
	require.NotNil(t, g.rend.context(1).resource(10), "attached before the context was known to be PVDRM's")

	g.createFor(20, 64, 32, 1)
	g.ok(ctxAttach, 2, words(20, 0))
	g.ok(ctxAttach, 2, words(20, 0))
	require.Equal(t, []string{"resource 20 64x32", "context 2 mesa", "attach 2 20"}, gl.took())
	g.ok(transferTo3D, 2, words(1, 2, 3, 4, 5, 6, 7, 8, 20, 9, 10, 11))
	require.Equal(t, []string{"transfer 2 {FromHost:false Resource:20 Level:9 Stride:10 LayerStride:11 Box:[1 2 3 4 5 6] Offset:34359738375}"}, gl.took())
	g.want(errResource, transferFrom3D, 2, words(1, 2, 3, 4, 5, 6, 7, 8, 10, 9, 10, 11))
	g.want(errContext, ctxAttach, 1, words(20, 0))

	// Once it is known, what a submission looks like does not matter.
	done := make(chan struct{})
	go func() {
		defer close(done)
		(<-gl.submits)(nil)
	}()
	g.ok(submit3D, 2, words(uint32(len(doorbell)), 0), doorbell)
	<-done
	require.Equal(t, []string{fmt.Sprintf("submit 2 %q false", doorbell)}, gl.took())

	g.ok(ctxDetach, 2, words(20, 0))
	g.ok(ctxDestroy, 2)
	g.ok(unref, 0, words(20, 0))
	require.Equal(t, []string{"detach 2 20", "end context 2", "end resource 20"}, gl.took())

	gl.mu.Lock()
	gl.fail = errors.New("no")
	gl.mu.Unlock()
	g.want(errUnspec, create3D, 0, words(30, 2, 1, 2, 8, 8, 1, 1, 0, 0, 0, 0))
	g.want(errUnspec, unref, 0, words(30, 0))
}

// A context of which nothing was known is OpenGL's if it submits what is no doorbell.
func TestFirstSubmissionTells(t *testing.T) {
	g, gl := newRenderingGPU(t)
	g.context(1, "x")
	go func() { (<-gl.submits)(errors.New("bad")) }()
	g.want(errUnspec, submit3D, 1, words(4, 0), []byte("virg"))
	require.Equal(t, []string{"context 1 x", `submit 1 "virg" false`}, gl.took())
	g.reset()
	require.Equal(t, []string{"end context 1", "reset"}, gl.took())
}

// Answers with fences pass no rendering that was submitted before them.
func TestFencesWaitForRendering(t *testing.T) {
	g, gl := newRenderingGPU(t)
	g.context(1, "mesa")
	g.context(2, "gdev")
	send := func(ctx uint32, fence uint64, cmd []byte) uint16 {
		head, _ := g.control.Send(append(header(submit3D, ctx, fence), slices.Concat(words(uint32(len(cmd)), 0), cmd)...), 24)
		return head
	}
	first := send(1, 1, []byte("draw"))
	second := send(2, 2, doorbell)
	third := send(1, 3, []byte("draw"))
	draw := []func(error){<-gl.submits, <-gl.submits}
	hint := (<-g.rend.context(2).submits).fence
	draw[1](nil)
	hint()
	g.ok(submit3D, 2, words(uint32(len(doorbell)), 0), doorbell) // without a fence it does not wait
	draw[0](errors.New("lost"))                                  // an error signals the fence too
	for _, want := range []uint16{first, second, third} {
		head, _ := g.control.Wait()
		require.Equal(t, want, head)
	}
}

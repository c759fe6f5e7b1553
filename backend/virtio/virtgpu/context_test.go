package virtgpu_test

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/virtio/vhostuser/vhosttest"
	"pvdrm/backend/virtio/virtgpu"
)

func TestConfigSpace(t *testing.T) {
	g := newGPU(t, 0, 0)
	b := g.Get(vhosttest.GetConfig, append(words(0, 16, 0), make([]byte, 16)...))
	require.Equal(t, words(0, 0, 1, 2), b[12:], "two capability sets")
	require.Equal(t, uint64(3), binary.LittleEndian.Uint64(g.Get(vhosttest.GetFeatures, nil))&0xff, "VIRGL and EDID")

	flat := newGPUWith(t, nil, virtgpu.Config{})
	require.Equal(t, uint64(2), binary.LittleEndian.Uint64(flat.Get(vhosttest.GetFeatures, nil))&0xff, "EDID only")
	flat.want(errUnspec, ctxCreate, 1, make([]byte, 72))
}

func TestCapsets(t *testing.T) {
	g := newGPU(t, 0, 0)
	require.Equal(t, words(40, 3, 24, 0), g.want(respCapsetInfo, getCapsetInfo, 0, words(0, 0)))
	require.Equal(t, words(41, 1, 10, 0), g.want(respCapsetInfo, getCapsetInfo, 0, words(1, 0)))
	g.want(errParameter, getCapsetInfo, 0, words(2, 0))
	require.Equal(t, "the first capability set", string(g.want(respCapset, getCapset, 0, words(40, 3))))
	require.Equal(t, "the first capability set", string(g.want(respCapset, getCapset, 0, words(40, 0))))
	require.Equal(t, "the second", string(g.want(respCapset, getCapset, 0, words(41, 1))))
	g.want(errParameter, getCapset, 0, words(40, 4))
	g.want(errParameter, getCapset, 0, words(0, 0))
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []virtgpu.Config{
		{Width: 640}, {Height: 480}, {Width: -1, Height: 1}, {Width: 4096, Height: 1},
	} {
		_, err := virtgpu.New(c)
		require.ErrorContains(t, err, "display of")
	}
	for _, bad := range [][]virtgpu.Capset{
		{{ID: 64}}, {{ID: 1}, {ID: 1}}, {{ID: 1, Data: make([]byte, 4097)}},
	} {
		_, err := virtgpu.New(virtgpu.Config{Components: []virtgpu.Component{capsets(bad)}})
		require.ErrorContains(t, err, "capability set")
	}
}

type capsets []virtgpu.Capset

func (c capsets) Capsets() []virtgpu.Capset { return c }
func (c capsets) Recognizes([]byte) bool    { return false }
func (c capsets) Owns(*virtgpu.Args) bool   { return false }
func (c capsets) Hints() bool               { return true }
func (c capsets) NewContext(uint32, string) (virtgpu.Context, error) {
	return nil, errors.New("none")
}

func TestContextNames(t *testing.T) {
	g := newGPU(t, 0, 0)
	require.Equal(t, "glxgears", g.context(1, "glxgears").name)
	require.Equal(t, "a?b??", g.context(2, "a\x1bb\xff\x80\x00x").name, "cut at the first zero")
	require.Equal(t, strings.Repeat("x", 63), g.context(3, strings.Repeat("x", 64)).name)
	// The guest says a length beyond the field.
	g.ok(ctxCreate, 4, words(^uint32(0), 0), append([]byte("tail"), make([]byte, 60)...))
	require.Equal(t, "tail", g.rend.context(4).name)

	g.want(errContext, ctxCreate, 1, make([]byte, 72))
	g.want(errContext, ctxCreate, 0, make([]byte, 72))
	g.rend.mu.Lock()
	g.rend.refuse = errors.New("no more")
	g.rend.mu.Unlock()
	g.want(errUnspec, ctxCreate, 9, make([]byte, 72))

	g.ok(ctxDestroy, 1)
	require.True(t, g.rend.context(1).isClosed())
	require.False(t, g.rend.context(2).isClosed())
	g.want(errContext, ctxDestroy, 1)
	g.want(errContext, ctxAttach, 1, words(1, 0))
	g.want(errContext, submit3D, 1, words(0, 0))
}

func TestSubmit(t *testing.T) {
	g := newGPU(t, 0, 0)
	c := g.context(7, "prog")
	g.ok(submit3D, 7, words(5, 0), []byte("hello"))
	s := <-c.submits
	require.Equal(t, "hello", s.cmd)
	require.Nil(t, s.fence, "the guest asked for no fence")
	g.ok(submit3D, 7, words(0, 0))
	require.Empty(t, (<-c.submits).cmd)

	big := strings.Repeat("b", virtgpu.MaxSubmit)
	g.ok(submit3D, 7, words(uint32(len(big)), 0), []byte(big))
	require.Equal(t, big, (<-c.submits).cmd)
	g.want(errParameter, submit3D, 7, words(uint32(len(big)+1), 0), []byte(big+"b"))
	g.want(errParameter, submit3D, 7, words(6, 0), []byte("short"))
	g.want(errUnspec, submit3D, 7, words(2, 0), []byte("no"))
	got, b := g.send(header(submit3D, 7, 5), words(2, 0), []byte("no"))
	require.Equal(t, uint32(errUnspec), got, "a fenced command that fails is answered at once")
	require.Empty(t, b)
}

// Fenced commands complete when their fences say so, in any order.
func TestFences(t *testing.T) {
	g := newGPU(t, 0, 0)
	c := g.context(7, "prog")
	var heads []uint16
	var answers [][]byte
	for i := range 3 {
		head, a := g.control.Send(append(header(submit3D, 7, uint64(100+i)<<32|1), words(0, 0)...), 24)
		heads, answers = append(heads, head), append(answers, a)
	}
	subs := []submit{<-c.submits, <-c.submits, <-c.submits}
	for _, i := range []int{1, 2, 0} {
		subs[i].fence()
		subs[i].fence() // a second call is harmless
		head, n := g.control.Wait()
		require.Equal(t, heads[i], head)
		require.Equal(t, uint32(24), n)
		require.Equal(t, words(respOK, 1, 1, uint32(100+i), 7, 0), answers[i])
	}
	// Other fenced commands complete at once, with their fence.
	b := g.control.Do(append(header(create3D, 0, 9), words(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)...), 24)
	require.Equal(t, words(respOK, 1, 9, 0, 0, 0), b)

	// Fences that are out when the driver is reset go nowhere.
	g.control.Send(append(header(submit3D, 7, 3), words(0, 0)...), 24)
	late := <-c.submits
	g.reset()
	require.True(t, c.isClosed())
	late.fence()
	g.context(7, "again")
}

// reset resets the device as a guest's restart does.
func (g *gpu) reset() {
	g.t.Helper()
	g.control.Stop()
	g.cursor.Stop()
	g.Set(vhosttest.ResetDevice, nil)
	g.control.Reset()
	g.cursor.Reset()
	g.control.Start(0)
	g.cursor.Start(0)
}

// Linux attaches a new object to its context before it gives it pages.
func TestPages(t *testing.T) {
	g := newGPU(t, 0, 0)
	c := g.context(1, "prog")
	g.object(5, 1)
	r := c.resource(5)
	require.Equal(t, uint32(5), r.ID())
	require.Equal(t, virtgpu.Args{Target: 0, Format: 1, Bind: 2, Width: 3, Height: 4, Depth: 5,
		ArraySize: 6, LastLevel: 7, Samples: 8, CreateFlag: 9}, r.Args())
	require.Zero(t, r.Size())
	_, err := c.hold(5)
	require.ErrorIs(t, err, virtgpu.ErrNoPages)

	// Three entries, of which two are side by side.
	low := g.Alloc(8192, 4096)
	high := g.Alloc(4096, 16384)
	g.back(5, entry{high, 4096}, entry{low, 4096}, entry{low + 4096, 4096})
	require.Equal(t, uint64(12288), r.Size())
	p, err := c.hold(5)
	require.NoError(t, err)
	require.Equal(t, uint64(12288), p.Size())
	runs := p.Runs()
	require.Len(t, runs, 2)
	require.Len(t, runs[0], 4096)
	require.Len(t, runs[1], 8192)
	g.Bytes(high, 1)[0], g.Bytes(low, 1)[0] = 'h', 'l'
	require.Equal(t, "hl", string([]byte{runs[0][0], runs[1][0]}))
	require.Len(t, p.Spans(), 2)

	mem, err := p.Contiguous()
	require.NoError(t, err)
	require.Len(t, mem, 12288)
	require.Equal(t, "hl", string([]byte{mem[0], mem[4096]}))
	mem[12287] = 'z'
	require.Equal(t, byte('z'), g.Bytes(low+8191, 1)[0])
	require.Equal(t, 2, g.dev.Stats().MapRuns)

	again, err := p.Contiguous()
	require.NoError(t, err)
	require.Same(t, &mem[0], &again[0])

	g.want(errUnspec, attachBacking, 0, words(5, 1), entries(g.pages(1)))
}

// Whoever holds pages keeps them, whatever happens to the resource.
func TestPagesOutliveGuest(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(g *gpu, p *virtgpu.Pages)
		gone bool
	}{
		{name: "detach backing", do: func(g *gpu, _ *virtgpu.Pages) { g.ok(detachBacking, 0, words(5, 0)) }, gone: true},
		{name: "unref", do: func(g *gpu, _ *virtgpu.Pages) { g.ok(unref, 0, words(5, 0)) }, gone: true},
		{name: "new memory table", do: func(g *gpu, _ *virtgpu.Pages) { g.ShareMemory(); g.ShareMemory() }, gone: false},
		{name: "context destroyed", do: func(g *gpu, _ *virtgpu.Pages) { g.ok(ctxDestroy, 1) }, gone: false},
		{name: "reset", do: func(g *gpu, _ *virtgpu.Pages) { g.reset() }, gone: true},
		{name: "guest gone", do: func(g *gpu, p *virtgpu.Pages) {
			require.NoError(g.t, g.Conn.Close())
			<-p.Gone()
		}, gone: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGPU(t, 0, 0)
			ctx := g.context(1, "prog")
			g.object(5, 1)
			list := g.pages(3)
			g.back(5, list...)
			p, err := ctx.hold(5)
			require.NoError(t, err)
			mem, err := p.Contiguous()
			require.NoError(t, err)
			select {
			case <-p.Gone():
				require.Fail(t, "nothing is gone yet")
			default:
			}
			c.do(g, p)
			select {
			case <-p.Gone():
				require.True(t, c.gone)
			default:
				require.False(t, c.gone)
			}
			g.Bytes(list[2].addr, 1)[0] = 0x5a
			require.Equal(t, byte(0x5a), mem[8192])
			require.Equal(t, byte(0x5a), p.Runs()[2][0])
			require.Equal(t, 3, g.dev.Stats().Entries, "still counted against the guest")
		})
	}
}

func TestDetach(t *testing.T) {
	g := newGPU(t, 0, 0)
	one, two := g.context(1, "one"), g.context(2, "two")
	g.object(5, 1)
	g.ok(ctxAttach, 2, words(5, 0))
	g.ok(ctxAttach, 2, words(5, 0)) // twice is once
	require.Same(t, one.resource(5), two.resource(5))
	g.ok(transferTo3D, 1, make([]byte, 32), words(5, 0, 0, 0))
	g.ok(transferFrom3D, 1, make([]byte, 32), words(5, 0, 0, 0))
	g.ok(ctxDetach, 1, words(5, 0))
	require.Nil(t, one.resource(5))
	require.NotNil(t, two.resource(5))
	g.want(errResource, ctxDetach, 1, words(5, 0))
	g.want(errResource, transferTo3D, 1, make([]byte, 32), words(5, 0, 0, 0))
	g.ok(unref, 0, words(5, 0))
	require.Nil(t, two.resource(5))
	g.want(errResource, ctxAttach, 2, words(5, 0))
	g.object(5, 2) // the number is free again
}

func TestOddBacking(t *testing.T) {
	g := newGPU(t, 0, 0)
	c := g.context(1, "prog")
	page := g.Alloc(8192, 4096)
	for _, list := range [][]entry{
		{{page + 8, 4096}},
		{{page, 100}},
		{{page, 2048}, {page + 2048, 2048}}, // whole only together
	} {
		g.object(5, 1)
		g.back(5, list...)
		_, err := c.hold(5)
		require.ErrorIs(t, err, virtgpu.ErrNotPages)
		g.ok(unref, 0, words(5, 0))
	}
	g.object(5, 1)
	for _, list := range [][]entry{
		{{page, 0}},
		{{^uint64(0) - 10, 4096}},
		{{1 << 50, 4096}},
		{{page, 4096}, {vhosttest.RegionSize - 4096, 8192}}, // runs out of memory half way
	} {
		g.want(errParameter, attachBacking, 0, words(5, uint32(len(list))), entries(list))
	}
	g.want(errParameter, attachBacking, 0, words(5, 2), entries(g.pages(1)))
	g.want(errParameter, attachBacking, 0, words(5, 0))
	g.want(errParameter, attachBacking, 0, words(5, virtgpu.MaxResourceEntries+1))
	g.want(errResource, attachBacking, 0, words(6, 1), entries(g.pages(1)))
	g.want(errUnspec, detachBacking, 0, words(5, 0))
	g.want(errResource, detachBacking, 0, words(6, 0))
	require.Zero(t, g.dev.Stats().Entries)
}

func TestLimits(t *testing.T) {
	t.Run("contexts", func(t *testing.T) {
		g := newGPU(t, 0, 0)
		for i := range uint32(virtgpu.MaxContexts) {
			g.ok(ctxCreate, i+1, make([]byte, 72))
		}
		g.want(errNoMemory, ctxCreate, 1<<20, make([]byte, 72))
		g.ok(ctxDestroy, 1)
		g.ok(ctxCreate, 1<<20, make([]byte, 72))
	})
	t.Run("resources", func(t *testing.T) {
		g := newGPU(t, 0, 0)
		for i := range uint32(virtgpu.MaxResources) {
			g.ok(create3D, 0, words(i+1), make([]byte, 44))
		}
		g.want(errNoMemory, create3D, 0, words(1<<20), make([]byte, 44))
		g.ok(unref, 0, words(1, 0))
		g.ok(create3D, 0, words(1<<20), make([]byte, 44))
		g.want(errResource, create3D, 0, words(2), make([]byte, 44))
		g.want(errResource, create3D, 0, words(0), make([]byte, 44))
		require.Equal(t, virtgpu.MaxResources, g.dev.Stats().Resources)
	})
	t.Run("images", func(t *testing.T) {
		g := newGPU(t, 0, 0)
		g.ok(create2D, 0, words(1, 1, 8192, 8192)) // all that is allowed
		g.want(errNoMemory, create2D, 0, words(2, 1, 1, 1))
		g.ok(unref, 0, words(1, 0))
		g.ok(create2D, 0, words(2, 1, 1, 1))
		g.want(errResource, create2D, 0, words(2, 1, 1, 1))
		require.Equal(t, uint64(4), g.dev.Stats().Image)
		g.want(errParameter, create2D, 0, words(3, 1, 16385, 1))
		g.want(errParameter, create2D, 0, words(3, 1, 1, 0))
		g.want(errParameter, create2D, 0, words(3, 5, 1, 1))
	})
	t.Run("entries", func(t *testing.T) {
		g := limited(t, 5, 100)
		c := g.context(1, "prog")
		g.object(1, 1)
		g.object(2, 1)
		g.back(1, g.pages(3)...)
		g.want(errNoMemory, attachBacking, 0, words(2, 3), entries(g.pages(3)))
		p, err := c.resource(1).Acquire()
		require.NoError(t, err)
		g.ok(detachBacking, 0, words(1, 0))
		g.want(errNoMemory, attachBacking, 0, words(2, 3), entries(g.pages(3)))
		p.Release()
		g.back(2, g.pages(3)...)
	})
	t.Run("mappings", func(t *testing.T) {
		g := limited(t, 100, 5)
		c := g.context(1, "prog")
		g.object(1, 1)
		g.object(2, 1)
		g.back(1, g.pages(3)...)
		g.back(2, g.pages(3)...)
		one, err := c.resource(1).Acquire()
		require.NoError(t, err)
		_, err = one.Contiguous()
		require.NoError(t, err)
		two, err := c.hold(2)
		require.NoError(t, err)
		_, err = two.Contiguous()
		require.ErrorIs(t, err, virtgpu.ErrTooManyRuns)
		require.Len(t, two.Runs(), 3, "the pages themselves are there")
		one.Release()
		_, err = two.Contiguous()
		require.NoError(t, err)
	})
}

// limited starts a device with low limits for backing entries and mappings.
func limited(t *testing.T, entries, runs int64) *gpu {
	t.Helper()
	r := newPages()
	dev, err := virtgpu.New(virtgpu.Config{Components: []virtgpu.Component{r}})
	require.NoError(t, err)
	dev.SetLimits(entries, runs)
	return startGPU(t, r, dev)
}

// A hostile guest cannot grow this process: what it does for ever is refused.
func TestHostileLoop(t *testing.T) {
	g := newGPU(t, 0, 0)
	c := g.context(1, "prog")
	before := openFDs(t)
	for range 200 {
		g.object(5, 1)
		g.back(5, g.pages(1)...)
		p, err := c.resource(5).Acquire()
		require.NoError(t, err)
		_, err = p.Contiguous()
		require.NoError(t, err)
		g.ok(unref, 0, words(5, 0))
		g.ShareMemory()
		p.Release()
	}
	require.LessOrEqual(t, openFDs(t), before+4)
	require.Zero(t, g.dev.Stats().Entries)
}

func openFDs(t *testing.T) int {
	d, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(d)
}

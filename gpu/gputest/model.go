package gputest

import (
	"encoding/binary"
	"errors"
	"slices"

	"pgregory.net/rapid"

	"pvdrm/gpu"
)

var modelTests = []test{
	{"memory and mappings", func(r *rig) {
		rapid.Check(r.T, func(t *rapid.T) {
			m := &model{rig: r}
			defer m.close()
			m.open(t)
			t.Repeat(map[string]func(*rapid.T){
				"vram":   func(t *rapid.T) { m.alloc(t, true) },
				"system": func(t *rapid.T) { m.alloc(t, false) },
				"map":    m.mapSome,
				"unmap":  m.unmapSome,
				"free":   m.free,
				"write":  m.write,
				"probe":  m.probe,
				"":       m.check,
			})
		})
	}},
}

// model is a client and what its memory should hold: one tag for each page.
type model struct {
	*rig
	ctx    gpu.Context
	ch     gpu.Channel
	out    []byte // host memory for results, at the end of the system window
	outVA  uint64
	spaces [2]modelSpace // VRAM and system
	all    []*modelMemory
	tags   uint32
	host   [][]byte // for system memories, reused
}

// modelSpace is a window, of which the first pages are used.
type modelSpace struct {
	gpu.Window
	sizes []int // pages of a memory
	pages []modelPage
}

// modelPage is what is mapped at one page; mem is nil where nothing is.
type modelPage struct {
	mem      *modelMemory
	index    int
	readOnly bool
}

type modelMemory struct {
	gpu.Memory
	space *modelSpace
	tags  []uint32
	host  []byte
}

const (
	modelMemories = 6
	modelOut      = 1 << 16
)

func (m *model) open(t *rapid.T) {
	var err error
	m.ctx, err = m.dev.NewContext("model")
	must(t, err)
	m.ch, err = m.ctx.NewChannel()
	must(t, err)
	for i, w := range []gpu.Window{m.props.VRAM, m.props.System} {
		sizes := []int{1, 2, 3, 7, 512, 600, 1024}
		if w.Page > 4096 {
			sizes = []int{1, 2, 3}
		}
		m.spaces[i] = modelSpace{w, sizes, make([]modelPage, 2*sizes[len(sizes)-1])}
	}
	if m.out == nil {
		m.out = m.pages(roundUp(modelOut, m.props.System))
	}
	mem, err := m.ctx.NewSystem([][]byte{m.out})
	must(t, err)
	w := m.props.System
	m.outVA = w.Base + w.Size - uint64(len(m.out))
	must(t, m.ctx.Map(m.outVA, mem, 0, uint64(len(m.out)), readWrite))
	m.all = nil
}

func (m *model) close() {
	if m.ctx != nil {
		m.ctx.Close()
	}
}

// run runs commands and returns their error.
func (m *model) run(t *rapid.T, cmds ...gpu.Command) error {
	results := make(chan gpu.Result, 1)
	must(t, m.ch.Submit(cmds, func(r gpu.Result) { results <- r }))
	return (<-results).Err
}

func (m *model) alloc(t *rapid.T, vram bool) {
	if len(m.all) == modelMemories {
		t.Skip("enough")
	}
	s := &m.spaces[1]
	if vram {
		s = &m.spaces[0]
	}
	pages := rapid.SampledFrom(s.sizes).Draw(t, "pages")
	size := uint64(pages) * s.Page
	mem := &modelMemory{space: s, tags: make([]uint32, pages)}
	var err error
	if vram {
		mem.Memory, err = m.ctx.NewVRAM(size)
	} else {
		mem.host = m.hostMemory(size)
		// Two runs, the second half first.
		cut := size / 2 / s.Page * s.Page
		runs := [][]byte{mem.host[cut:size], mem.host[:cut]}
		if cut == 0 {
			runs = runs[:1]
		}
		mem.Memory, err = m.ctx.NewSystem(runs)
	}
	must(t, err)
	m.all = append(m.all, mem)
}

// hostMemory returns zeroed memory that no memory of the context uses.
func (m *model) hostMemory(size uint64) []byte {
	for _, h := range m.host {
		inUse := slices.ContainsFunc(m.all, func(o *modelMemory) bool { return o.host != nil && &o.host[0] == &h[0] })
		if uint64(len(h)) == size && !inUse {
			clear(h)
			return h
		}
	}
	h := m.pages(size)
	m.host = append(m.host, h)
	return h
}

// drawMemory picks one of the memories.
func (m *model) drawMemory(t *rapid.T) *modelMemory {
	if len(m.all) == 0 {
		t.Skip("no memory")
	}
	return rapid.SampledFrom(m.all).Draw(t, "memory")
}

// drawRange picks a page number below limit, often a multiple of 512, and a count.
func drawRange(t *rapid.T, what string, limit int) (at, n int) {
	at = rapid.IntRange(0, limit-1).Draw(t, what)
	if rapid.Bool().Draw(t, what+" rounded") {
		at = at / 512 * 512
	}
	return at, rapid.IntRange(1, limit-at).Draw(t, what+" count")
}

func (m *model) mapSome(t *rapid.T) {
	mem := m.drawMemory(t)
	s := mem.space
	off, n := drawRange(t, "offset", len(mem.tags))
	at, room := drawRange(t, "page", len(s.pages))
	n = min(n, room)
	prot := rapid.SampledFrom([]gpu.Prot{readWrite, readWrite, gpu.ProtRead}).Draw(t, "prot")
	err := m.ctx.Map(s.Base+uint64(at)*s.Page, mem.Memory, uint64(off)*s.Page, uint64(n)*s.Page, prot)
	if slices.ContainsFunc(s.pages[at:at+n], func(p modelPage) bool { return p.mem != nil }) {
		if !errors.Is(err, gpu.ErrExists) {
			t.Fatalf("mapping over others: %v", err)
		}
		return
	}
	must(t, err)
	for i := range n {
		s.pages[at+i] = modelPage{mem, off + i, prot == gpu.ProtRead}
	}
}

func (m *model) unmapSome(t *rapid.T) {
	s := &m.spaces[rapid.IntRange(0, 1).Draw(t, "window")]
	at, n := drawRange(t, "page", len(s.pages))
	err := m.ctx.Unmap(s.Base+uint64(at)*s.Page, uint64(n)*s.Page)
	if !slices.ContainsFunc(s.pages[at:at+n], func(p modelPage) bool { return p.mem != nil }) {
		if !errors.Is(err, gpu.ErrNotFound) {
			t.Fatalf("unmapping nothing: %v", err)
		}
		return
	}
	must(t, err)
	clear(s.pages[at : at+n])
}

func (m *model) free(t *rapid.T) {
	mem := m.drawMemory(t)
	must(t, mem.Close())
	m.all = slices.DeleteFunc(m.all, func(o *modelMemory) bool { return o == mem })
	for i := range mem.space.pages {
		if mem.space.pages[i].mem == mem {
			mem.space.pages[i] = modelPage{}
		}
	}
}

// drawPage picks a page that satisfies the condition.
func (m *model) drawPage(t *rapid.T, want func(modelPage) bool) (*modelPage, uint64) {
	s := &m.spaces[rapid.IntRange(0, 1).Draw(t, "window")]
	start := rapid.IntRange(0, len(s.pages)-1).Draw(t, "from")
	for i := range s.pages {
		at := (start + i) % len(s.pages)
		if want(s.pages[at]) {
			return &s.pages[at], s.Base + uint64(at)*s.Page
		}
	}
	t.Skip("no such page")
	return nil, 0
}

func (m *model) write(t *rapid.T) {
	p, va := m.drawPage(t, func(p modelPage) bool { return p.mem != nil && !p.readOnly })
	m.tags++
	must(t, m.run(t, set(va, m.tags)))
	p.mem.tags[p.index] = m.tags
}

// probe touches what must fault, and starts afresh.
func (m *model) probe(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") != 0 {
		t.Skip("too dear to do it often")
	}
	p, va := m.drawPage(t, func(p modelPage) bool { return p.mem == nil || p.readOnly })
	err := m.run(t, set(va, 1))
	lost, ok := errors.AsType[*gpu.LostError](err)
	if !ok || lost.Cause != gpu.LostAddress || lost.Addr != va {
		t.Fatalf("write to 0x%x (%+v): %v", va, *p, err)
	}
	must(t, m.ctx.Close())
	m.open(t)
}

// check reads the first word of every page that is mapped.
func (m *model) check(t *rapid.T) {
	for i := range m.spaces {
		s := &m.spaces[i]
		for at := 0; at < len(s.pages); {
			n := 0
			for at+n < len(s.pages) && s.pages[at+n].mem != nil {
				n++
			}
			if n == 0 {
				at++
				continue
			}
			must(t, m.run(t, &gpu.Copy{Dst: m.outVA, Src: s.Base + uint64(at)*s.Page,
				Width: 4, Height: uint64(n), DstPitch: 4, SrcPitch: s.Page}))
			for j, p := range s.pages[at : at+n] {
				if got := binary.LittleEndian.Uint32(m.out[4*j:]); got != p.mem.tags[p.index] {
					t.Fatalf("window %d page %d: page %d of its memory holds %d, want %d", i, at+j, p.index, got, p.mem.tags[p.index])
				}
			}
			at += n
		}
	}
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package virtgpu

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"

	"pvdrm/internal/hostmem"
)

// Errors of Resource and Pages.
var (
	// ErrNoPages says that the guest did not give the resource any pages, or took
	// them back.
	ErrNoPages = errors.New("the resource has no backing pages")
	// ErrNotPages says that the backing is not made of whole pages.
	ErrNotPages = errors.New("the resource's backing is not made of whole pages")
	// ErrTooManyRuns says that the backing is too scattered to be mapped in one piece.
	ErrTooManyRuns = errors.New("too many runs of guest pages to map in one piece")
)

// Args are the parameters of a 3D resource, as the guest gave them to
// DRM_VIRTGPU_RESOURCE_CREATE. They are not checked: the component gives them their meaning.
type Args struct {
	Target, Format, Bind                                            uint32
	Width, Height, Depth, ArraySize, LastLevel, Samples, CreateFlag uint32
}

// Resource is an object of the guest: backing pages and, for a 2D resource, an
// image of the host. It is safe for concurrent use.
type Resource struct {
	id    uint32
	args  Args
	image *image // of a 2D resource; guarded by Device.mu

	owner    *component // of a 3D resource
	renderer Renderer   // that keeps it; nil for a resource that is its pages, or a 2D one

	mu      sync.Mutex
	backing *backing // nil without
}

// ID returns the number that the guest gave the resource. A later resource may
// have the same.
func (r *Resource) ID() uint32 { return r.id }

// Args returns the parameters with which the guest made the resource.
func (r *Resource) Args() Args { return r.args }

// Size returns the number of bytes of the backing pages; 0 while there are none.
func (r *Resource) Size() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backing == nil {
		return 0
	}
	return r.backing.size
}

// Acquire takes hold of the backing pages. They stay mapped until Pages.Release,
// whatever the guest does. ErrNoPages if there are none (the guest may attach them
// after it attached the resource to a context, so ask when they are needed), and
// ErrNotPages if they are not page-aligned pieces of whole pages.
func (r *Resource) Acquire() (*Pages, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backing == nil {
		return nil, fmt.Errorf("resource %d: %w", r.id, ErrNoPages)
	}
	if !r.backing.pages {
		return nil, fmt.Errorf("resource %d: %w", r.id, ErrNotPages)
	}
	r.backing.acquire()
	return &Pages{b: r.backing}, nil
}

// attach gives the resource its backing, which it takes over. It fails if there
// is one already.
func (r *Resource) attach(b *backing) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backing != nil {
		return refuse(respErrUnspec, "resource %d has backing pages already", r.id)
	}
	r.backing = b
	return nil
}

// detach takes the backing away; those who acquired it keep its memory and are told.
func (r *Resource) detach() bool {
	r.mu.Lock()
	b := r.backing
	r.backing = nil
	r.mu.Unlock()
	if b == nil {
		return false
	}
	close(b.gone)
	b.release()
	return true
}

// Pages is a hold on the guest pages of a resource. Its methods are safe for
// concurrent use, except Release.
type Pages struct {
	b *backing

	mu     sync.Mutex
	mapped []byte // by Contiguous
}

// Size returns the number of bytes, a multiple of the page size.
func (p *Pages) Size() uint64 { return p.b.size }

// Spans returns the pages in order, adjacent ones put together, as pieces of the
// memfds that are the guest's RAM. The caller must not change the slice.
func (p *Pages) Spans() []hostmem.Span { return p.b.spans }

// Runs returns the memory of the pages in order, adjacent ones put together. Each
// run is page-aligned. The guest can write to it at any time.
func (p *Pages) Runs() [][]byte {
	runs := make([][]byte, len(p.b.spans))
	for i, s := range p.b.spans {
		runs[i] = s.Bytes()
	}
	return runs
}

// Contiguous returns the memory of all pages in one piece, mapping it at the
// first call; that mapping lives until Release. ErrTooManyRuns if the guest
// would need more than MaxMapRuns mappings.
func (p *Pages) Contiguous() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mapped != nil {
		return p.mapped, nil
	}
	if len(p.b.spans) == 1 {
		return p.b.spans[0].Bytes(), nil
	}
	n := int64(len(p.b.spans))
	if !p.b.quotas.runs.take(n) {
		return nil, fmt.Errorf("%w: %d", ErrTooManyRuns, n)
	}
	mem, err := hostmem.MapContiguous(p.b.spans)
	if err != nil {
		p.b.quotas.runs.give(n)
		return nil, err
	}
	p.mapped = mem
	return mem, nil
}

// Gone is closed when the guest takes the pages back (or is gone itself): the
// holder should stop using them and release them soon.
func (p *Pages) Gone() <-chan struct{} { return p.b.gone }

// Release lets go of the pages. All slices that came from p are invalid then. It
// must be called exactly once.
func (p *Pages) Release() {
	if p.mapped != nil {
		hostmem.UnmapContiguous(p.mapped)
		p.mapped = nil
		p.b.quotas.runs.give(int64(len(p.b.spans)))
	}
	p.b.release()
}

// backing is a list of pieces of guest memory. It does not change.
type backing struct {
	refs    atomic.Int64
	quotas  *quotas
	entries int64 // taken from the quota
	spans   []hostmem.Span
	starts  []uint64 // where in the backing each span starts
	size    uint64
	pages   bool          // all of it is whole pages
	gone    chan struct{} // closed when the guest takes it back
}

// newBacking makes an empty backing for at most entries entries, which the caller
// has taken from the quota. It starts with one reference.
func newBacking(q *quotas, entries int64) *backing {
	b := &backing{quotas: q, entries: entries, pages: true, gone: make(chan struct{})}
	b.refs.Store(1)
	return b
}

// add appends the guest-physical range [addr, addr+n).
func (b *backing) add(t *hostmem.Table, addr, n uint64) error {
	if n == 0 || addr+n < addr {
		return refuse(respErrParameter, "backing entry of %d bytes at %#x", n, addr)
	}
	if addr%hostmem.PageSize != 0 || n%hostmem.PageSize != 0 {
		b.pages = false
	}
	for n > 0 {
		reg, off, got, err := t.Guest(addr, n)
		if err != nil {
			return &commandError{respErrParameter, err}
		}
		b.append(hostmem.Span{Region: reg, Off: off, Len: got})
		addr, n = addr+got, n-got
	}
	return nil
}

func (b *backing) append(s hostmem.Span) {
	start := b.size
	b.size += s.Len
	if s.FileOffset()%hostmem.PageSize != 0 || s.Len%hostmem.PageSize != 0 {
		b.pages = false
	}
	n := len(b.spans)
	if n == 0 || b.spans[n-1].Region != s.Region {
		s.Region.Acquire() // one reference serves a row of spans
	} else if last := &b.spans[n-1]; last.Off+last.Len == s.Off {
		last.Len += s.Len
		return
	}
	b.spans = append(b.spans, s)
	b.starts = append(b.starts, start)
}

// copyOut copies bytes from offset off on into dst, and reports whether the
// backing has that many.
func (b *backing) copyOut(dst []byte, off uint64) bool {
	if off > b.size || uint64(len(dst)) > b.size-off {
		return false
	}
	// The last span that starts at or before off.
	i := sort.Search(len(b.starts), func(i int) bool { return b.starts[i] > off }) - 1
	for ; len(dst) > 0; i++ {
		n := copy(dst, b.spans[i].Bytes()[off-b.starts[i]:])
		dst, off = dst[n:], off+uint64(n)
	}
	return true
}

func (b *backing) acquire() { b.refs.Add(1) }

func (b *backing) release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
	case n == 0:
		var last *hostmem.Region
		for _, s := range b.spans {
			if s.Region != last {
				last = s.Region
				last.Release()
			}
		}
		b.quotas.entries.give(b.entries)
	default:
		panic("virtgpu: pages released too often")
	}
}

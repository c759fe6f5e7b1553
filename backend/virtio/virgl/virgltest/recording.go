package virgltest

import (
	"encoding/gob"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"pvdrm/backend/virtio/virtgpu"
)

// Op is what a Call does.
type Op uint8

// The calls of virtgpu.Renderer and of its contexts.
const (
	NewContext Op = iota + 1
	CloseContext
	CreateResource
	DestroyResource
	AttachBacking
	DetachBacking
	Attach
	Detach
	Transfer
	Submit
	ReadPixels
)

// Call is a call of a renderer by a guest.
type Call struct {
	Op       Op
	Answered int    // how many earlier calls had been answered
	Context  uint32 // number
	Resource uint32 // number
	Name     string // of the context
	Args     virtgpu.Args
	Size     uint64 // of the backing, bytes
	Transfer virtgpu.Transfer
	Stream   []byte
	Fenced   bool
	Box      [4]uint32 // x, y, width, height of the pixels
	Pages    []Page    // what the guest has written since the last call
}

// Page is a part of the backing of a resource.
type Page struct {
	Resource uint32
	At       uint64 // offset into the backing, bytes
	Data     []byte
}

const (
	pageBytes  = 4096
	maxCalls   = 1 << 20
	maxMemory  = 1 << 30 // that a recording may need to be unpacked, bytes
	maxBacking = 1 << 28 // bytes
)

// Recorder is a renderer that writes down how it is called.
type Recorder struct {
	virtgpu.Renderer
	seed maphash.Seed

	mu       sync.Mutex
	zip      *zstd.Encoder
	enc      *gob.Encoder
	err      error // the first
	answered int
	backings map[uint32]*backing
}

type backing struct {
	runs   [][]byte
	hashes []uint64 // of each page; a backing starts as zeros
}

// Record records calls of r, until Close.
func Record(r virtgpu.Renderer, to io.Writer) (*Recorder, error) {
	zip, err := zstd.NewWriter(to)
	return &Recorder{Renderer: r, seed: maphash.MakeSeed(), zip: zip, enc: gob.NewEncoder(zip), backings: map[uint32]*backing{}}, err
}

// Close ends the recording, and not the renderer.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err, r.zip.Close())
}

// call writes a call. It returns what is to be called when that was answered.
func (r *Recorder) call(c Call, done func(error)) func(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Answered = r.answered
	if c.Op == Submit || c.Op == Transfer {
		c.Pages = r.changes()
	}
	if r.err == nil {
		r.err = r.enc.Encode(&c)
	}
	if c.Op == DetachBacking || c.Op == DestroyResource {
		delete(r.backings, c.Resource)
	}
	return func(err error) {
		r.mu.Lock()
		r.answered++
		r.mu.Unlock()
		done(err)
	}
}

// changes are the pages that differ from what was written down of them.
func (r *Recorder) changes() (pages []Page) {
	for id, b := range r.backings {
		i, at := 0, uint64(0)
		for _, run := range b.runs {
			for len(run) > 0 {
				data := append([]byte(nil), run[:min(pageBytes, len(run))]...)
				run = run[len(data):]
				if h := maphash.Bytes(r.seed, data); h != b.hashes[i] {
					b.hashes[i] = h
					pages = append(pages, Page{id, at, data})
				}
				i, at = i+1, at+uint64(len(data))
			}
		}
	}
	return pages
}

// CreateResource is part of virtgpu.Renderer.
func (r *Recorder) CreateResource(id uint32, a virtgpu.Args, done func(error)) {
	r.Renderer.CreateResource(id, a, r.call(Call{Op: CreateResource, Resource: id, Args: a}, done))
}

// DestroyResource is part of virtgpu.Renderer.
func (r *Recorder) DestroyResource(id uint32, done func(error)) {
	r.Renderer.DestroyResource(id, r.call(Call{Op: DestroyResource, Resource: id}, done))
}

// AttachBacking is part of virtgpu.Renderer.
func (r *Recorder) AttachBacking(id uint32, p *virtgpu.Pages, done func(error)) {
	done = r.call(Call{Op: AttachBacking, Resource: id, Size: p.Size()}, done)
	b := &backing{runs: p.Runs()}
	for _, run := range b.runs {
		b.hashes = append(b.hashes, make([]uint64, (len(run)+pageBytes-1)/pageBytes)...)
	}
	r.mu.Lock()
	r.backings[id] = b
	r.mu.Unlock()
	r.Renderer.AttachBacking(id, p, done)
}

// DetachBacking is part of virtgpu.Renderer.
func (r *Recorder) DetachBacking(id uint32, done func(error)) {
	r.Renderer.DetachBacking(id, r.call(Call{Op: DetachBacking, Resource: id}, done))
}

// ReadPixels is part of virtgpu.Renderer.
func (r *Recorder) ReadPixels(id, x, y, width, height uint32, done func([]byte, error)) {
	ended := r.call(Call{Op: ReadPixels, Resource: id, Box: [4]uint32{x, y, width, height}}, func(error) {})
	r.Renderer.ReadPixels(id, x, y, width, height, func(p []byte, err error) {
		ended(err)
		done(p, err)
	})
}

// Reset is part of virtgpu.Renderer. What the guest had is not looked at any more.
func (r *Recorder) Reset() {
	r.mu.Lock()
	clear(r.backings)
	r.mu.Unlock()
	r.Renderer.Reset()
}

// NewContext is part of virtgpu.Renderer, which answers it later.
func (r *Recorder) NewContext(id uint32, name string) (virtgpu.Context, error) {
	r.call(Call{Op: NewContext, Context: id, Name: name}, func(error) {})(nil)
	c, err := r.Renderer.NewContext(id, name)
	return recorded{c, r, id}, err
}

// recorded is a context of a Recorder.
type recorded struct {
	virtgpu.Context
	r  *Recorder
	id uint32
}

func (c recorded) Submit(cmd []byte, fenced bool, done func(error)) {
	c.Context.Submit(cmd, fenced, c.r.call(Call{Op: Submit, Context: c.id, Stream: cmd, Fenced: fenced}, done))
}

func (c recorded) Attach(res *virtgpu.Resource, done func(error)) {
	c.Context.Attach(res, c.r.call(Call{Op: Attach, Context: c.id, Resource: res.ID()}, done))
}

func (c recorded) Detach(id uint32, done func(error)) {
	c.Context.Detach(id, c.r.call(Call{Op: Detach, Context: c.id, Resource: id}, done))
}

func (c recorded) Transfer(t virtgpu.Transfer, done func(error)) {
	c.Context.Transfer(t, c.r.call(Call{Op: Transfer, Context: c.id, Transfer: t}, done))
}

func (c recorded) Close(done func(error)) {
	c.Context.Close(c.r.call(Call{Op: CloseContext, Context: c.id}, done))
}

// ReadCalls reads a recording.
func ReadCalls(from io.Reader) (calls []Call, err error) {
	zip, err := zstd.NewReader(from, zstd.WithDecoderMaxMemory(maxMemory))
	if err != nil {
		return nil, err
	}
	defer zip.Close()
	for dec := gob.NewDecoder(io.LimitReader(zip, maxMemory)); ; {
		var c Call
		switch err := dec.Decode(&c); {
		case errors.Is(err, io.EOF):
			return calls, nil
		case err != nil:
			return nil, err
		case len(calls) == maxCalls || c.Size > maxBacking || c.Answered > len(calls):
			return nil, fmt.Errorf("call %d: no recording has that", len(calls))
		}
		calls = append(calls, c)
	}
}

package local

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Granted memory is a file in the kernel's page cache, and the first touch of each
// of its pages a fault that zeroes it, of the client or, while a copy waits, of the
// device. Large memory is therefore made present beforehand, on a goroutine that
// runs while there is some: pinned memory is meant to be used. What is smaller is
// soon touched, or is mostly not used.
const (
	populateFrom  = 2 << 20   // bytes; smaller memory is left alone
	populateChunk = 128 << 10 // bytes at once: meanwhile nothing can be mapped in this process
)

// populator makes memory present. The zero value is ready.
type populator struct {
	work sync.WaitGroup // of the goroutine

	mu      sync.Mutex
	queue   []*memory // each with a reference to its region
	running bool
}

// add has the memory made present soon.
func (p *populator) add(m *memory) {
	if m.Size() < populateFrom {
		return
	}
	m.region.Acquire()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, m)
	if !p.running {
		p.running = true
		p.work.Go(p.run)
	}
}

// remove forgets memory that no client has any more. If it is being made present, that ends
// soon, see populate.
func (p *populator) remove(m *memory) {
	p.mu.Lock()
	i := slices.Index(p.queue, m)
	if i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		m.region.Release()
	}
}

// run works until the queue is empty.
func (p *populator) run() {
	for {
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.queue, p.running = nil, false
			p.mu.Unlock()
			return
		}
		m := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		populate(m)
		m.region.Release()
	}
}

// populate makes one memory present, unless its clients have gone.
func populate(m *memory) {
	for mem := m.region.Bytes(); len(mem) > 0 && m.inUse(); {
		n := min(len(mem), populateChunk)
		// It fails on kernels before 5.14, and where memory is short: then whoever
		// touches the pages does the work, or hears of it.
		if unix.Madvise(mem[:n], unix.MADV_POPULATE_WRITE) != nil {
			return
		}
		mem = mem[n:]
	}
}

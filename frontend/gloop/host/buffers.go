package host

import (
	"errors"
	"sync"
	"syscall"

	"pvdrm/frontend/cuda"
)

const (
	bounceBytes = 512 << 10
	maxBounces  = 4
)

// bounce is a buffer through which files and sockets reach device memory, with a stream for copies,
// which run while the kernel does.
type bounce struct {
	context *cuda.Context
	stream  *cuda.Stream
	mem     *cuda.HostMem
	bytes   []byte
}

// bounces are the buffers of a program, made when they are needed.
type bounces struct {
	free chan *bounce

	mu   sync.Mutex
	made []*bounce
}

func newBounces() *bounces { return &bounces{free: make(chan *bounce, maxBounces)} }

// take waits for a buffer. The caller gives it back.
func (bs *bounces) take(c *cuda.Context) (*bounce, error) {
	select {
	case b := <-bs.free:
		return b, nil
	default:
	}
	b, err := bs.add(c)
	if b != nil || err != nil {
		return b, err
	}
	return <-bs.free, nil
}

func (bs *bounces) give(b *bounce) { bs.free <- b }

// add makes one more, unless there are enough.
func (bs *bounces) add(c *cuda.Context) (*bounce, error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if len(bs.made) == maxBounces {
		return nil, nil
	}
	stream, err := c.NewStreamNonBlocking()
	if err != nil {
		return nil, err
	}
	mem, err := c.MemAllocHost(bounceBytes)
	if err != nil {
		return nil, errors.Join(err, stream.Destroy())
	}
	b := &bounce{context: c, stream: stream, mem: mem, bytes: mem.Bytes()}
	bs.made = append(bs.made, b)
	return b, nil
}

// close frees all, of which none is in use.
func (bs *bounces) close() error {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	var errs []error
	for _, b := range bs.made {
		errs = append(errs, b.stream.Destroy(), b.mem.Free())
	}
	bs.made = nil
	return errors.Join(errs...)
}

// toDevice copies the first n bytes to device memory. Addresses that are not the program's are EFAULT.
func (b *bounce) toDevice(to, n uint64) error {
	return b.wait(b.context.MemcpyHtoDAsync(cuda.DevicePtr(to), b.mem, 0, n, b.stream))
}

// fromDevice copies n bytes of device memory.
func (b *bounce) fromDevice(from, n uint64) error {
	return b.wait(b.context.MemcpyDtoHAsync(b.mem, 0, cuda.DevicePtr(from), n, b.stream))
}

func (b *bounce) wait(err error) error {
	if err == nil {
		err = b.stream.Synchronize()
	}
	if errors.Is(err, cuda.ErrInvalidValue) {
		return errors.Join(syscall.EFAULT, err)
	}
	return err
}

// lent is granted memory in which kernels have buffers.
type lent struct {
	at    uint64 // on the GPU
	bytes []byte
}

// direct returns the bytes of a buffer that lies in granted memory, and nil of others.
func (p *program) direct(address, size uint64) []byte {
	for _, l := range p.lent {
		if n := uint64(len(l.bytes)); address >= l.at && address-l.at <= n && size <= n-(address-l.at) {
			return l.bytes[address-l.at:][:size:size]
		}
	}
	return nil
}

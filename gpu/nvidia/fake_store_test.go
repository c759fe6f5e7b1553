package nvidia

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// The fake's VRAM that outlives its worker: a file of the keeper, in which its RM hands out pages.

// fakeVRAM is the file in which a page lies. Workers, which are not confined, open it.
func fakeVRAM(params []byte) string {
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(params[at:]) }
	return fmt.Sprintf("/proc/%d/fd/%d", word(fakePageFile), word(fakePageFile+4))
}

// FakeDiesEnv names a file; a fake worker that gets to the step which the file names removes it, and
// dies.
const FakeDiesEnv = "PVDRM_TEST_FAKE_DIES"

// FakeHolder is what a descriptor that holds a page is called.
const FakeHolder = "fake-holder"

func dieAt(step string) {
	path := os.Getenv(FakeDiesEnv)
	if path == "" {
		return
	}
	if text, err := os.ReadFile(path); err == nil && string(text) == step && os.Remove(path) == nil {
		os.Exit(7)
	}
}

// fakePage is memory that a worker can map.
type fakePage struct {
	fd  int
	off uint64
}

// fakePageOffset is where the answer to an allocation says where a page lies.
const fakePageOffset = 80

// fakePageFile is where it says in which keeper's file, and the descriptor there.
const fakePageFile = 88

// page makes a page: one of the keeper, if this worker is guarded and has started, else one of its own.
func (c *fakeControl) page(handle uint32, size uint64) (p fakePage, ok bool) {
	var err error
	switch params, errno, status := c.makeMemory(fakePages+handle, size); {
	case errno == 0 && status != 0:
		return p, false
	case errno == 0:
		p.off = binary.LittleEndian.Uint64(params[fakePageOffset:])
		p.fd, err = unix.Open(fakeVRAM(params), unix.O_RDWR|unix.O_CLOEXEC, 0)
	case errno != unix.ENOTTY:
		return p, false // the keeper refuses
	default:
		if p.fd, err = unix.MemfdCreate("fake-vram", unix.MFD_CLOEXEC); err == nil {
			err = unix.Ftruncate(p.fd, int64(size))
		}
	}
	return p, err == nil
}

// fakeStore is the keeper's side.
type fakeStore struct {
	mu      sync.Mutex
	fd      int
	size    uint64
	objects map[[2]uint32]uint64 // pages, by the descriptor and the handle
}

var theStore fakeStore

func (s *fakeStore) init() {
	fd, err := unix.MemfdCreate("fake-vram", unix.MFD_CLOEXEC)
	if err != nil {
		panic(err)
	}
	s.fd, s.objects = fd, map[[2]uint32]uint64{}
	openHolder = func() (int, error) { return unix.MemfdCreate(FakeHolder, unix.MFD_CLOEXEC) }
}

// allocate hands out a page that no one had.
func (s *fakeStore) allocate(fd int, argument, params []byte) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := binary.LittleEndian.Uint64(params[memorySize:])
	if unix.Ftruncate(s.fd, int64(s.size+size)) != nil {
		return unix.ENOMEM
	}
	s.objects[[2]uint32{uint32(fd), binary.LittleEndian.Uint32(argument[allocObject:])}] = s.size
	binary.LittleEndian.PutUint64(params[fakePageOffset:], s.size)
	binary.LittleEndian.PutUint32(params[fakePageFile:], uint32(os.Getpid()))
	binary.LittleEndian.PutUint32(params[fakePageFile+4:], uint32(s.fd))
	s.size += size
	return 0
}

const noSuchObject = 0x57 // NV_ERR_OBJECT_NOT_FOUND

func (s *fakeStore) export(fd int, params []byte) (status uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.objects[[2]uint32{uint32(fd), binary.LittleEndian.Uint32(params[exportObject+12:])}]
	if !ok || binary.LittleEndian.Uint32(params[exportObject+4:]) != fakeDevice0 {
		return noSuchObject
	}
	// The descriptor itself says what it holds, so that another keeper can take it.
	if _, err := unix.Pwrite(int(binary.LittleEndian.Uint32(params[exportFD:])), binary.LittleEndian.AppendUint64(nil, at), 0); err != nil {
		return noSuchObject
	}
	return 0
}

func (s *fakeStore) take(fd int, params []byte) (status uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at [8]byte
	if n, err := unix.Pread(int(binary.LittleEndian.Uint32(params[importFD:])), at[:], 0); err != nil || n != len(at) || binary.LittleEndian.Uint32(params[importObject+4:]) != fakeDevice0 {
		return noSuchObject
	}
	s.objects[[2]uint32{uint32(fd), binary.LittleEndian.Uint32(params[importObject+12:])}] = binary.LittleEndian.Uint64(at[:])
	return 0
}

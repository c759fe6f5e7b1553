package nvidia

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/cudalibs/host"
	"pvdrm/internal/hostmem"
)

// fakeControl is the fake's /dev/nvidiactl: memory that a worker shares with its keeper by a
// duplicate of the descriptor, so that the keeper stops what the worker runs.
type fakeControl struct {
	fd  int
	mem []byte
}

// theControl serves this process, which is a worker.
var theControl *fakeControl

// Words of the memory.
const (
	fakeKernelsOff = 0  // the channels for kernels are stopped
	fakeCopiesOff  = 4  // the other channels are
	fakeFreed      = 8  // the worker has freed its channels
	fakeInside     = 12 // kernels within a step
	fakeWorks      = 16 // the worker runs something of its own
)

// The fake driver's objects. It has more channels than one control takes.
const (
	fakeClient0   = 0xc1d00001
	fakeDevice0   = 0x5c000002
	fakeSub       = 0x5c000003
	fakeChannel   = 0x5c000100
	fakeCompute   = 0x5c000200
	fakeDriverOwn = 0x5c000300 // VRAM that the driver takes for itself
	fakePages     = 0x5c010000
	fakeChannels  = 70
	fakeComputes  = 8
	fakeControlIs = "fake-nvidiactl"
	badChannel    = 0x21 // NV_ERR_INVALID_CHANNEL
)

func newFakeControl() *fakeControl {
	fd, err := unix.MemfdCreate(fakeControlIs, unix.MFD_CLOEXEC)
	if err != nil {
		panic(err)
	}
	if err := unix.Ftruncate(fd, 4096); err != nil {
		panic(err)
	}
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	theControl = &fakeControl{fd: fd, mem: mem}
	return theControl
}

// open makes the objects of a context. The kernel refuses these requests, which is all one to who
// watches them.
func (c *fakeControl) open() result {
	c.make(fakeClient0, fakeDevice0, fakeSub, classSubdevice)
	for i := range uint32(fakeChannels) {
		c.make(fakeClient0, fakeDevice0, fakeChannel+i, 0xc86f)
		if i < fakeComputes {
			c.make(fakeClient0, fakeChannel+i, fakeCompute+i, 0xcbc0)
		}
	}
	for i := range uint32(3) { // of which one is for a time only
		c.makeMemory(fakeDriverOwn+i, fakeContextBytes/2-1<<20) // and not whole pages
	}
	c.free(fakeDriverOwn)
	return resultOK
}

// fakeContextBytes is the VRAM that the fake driver has for a context.
const fakeContextBytes = 8 << 20

// makeMemory asks for VRAM.
func (c *fakeControl) makeMemory(handle uint32, size uint64) (params []byte, errno unix.Errno, status uint32) {
	argument, params := allocation(fakeClient0, fakeDevice0, handle, classMemory), make([]byte, memoryParams)
	binary.LittleEndian.PutUint64(params[memorySize:], size)
	errno = makeCall(c.fd, requestAlloc, argument, params)
	return params, errno, binary.LittleEndian.Uint32(argument[allocStatus:])
}

// free frees an object.
func (c *fakeControl) free(handle uint32) {
	_ = makeCall(c.fd, requestFree, release(fakeClient0, fakeDevice0, handle), nil)
}

// release is the argument of NV_ESC_RM_FREE.
func release(client, parent, object uint32) []byte {
	b := make([]byte, freeBytes)
	binary.LittleEndian.PutUint32(b[freeClient:], client)
	binary.LittleEndian.PutUint32(b[4:], parent)
	binary.LittleEndian.PutUint32(b[freeObject:], object)
	return b
}

func (c *fakeControl) make(client, parent, object, class uint32) {
	_ = makeCall(c.fd, requestAlloc, allocation(client, parent, object, class), nil)
}

// allocation is the argument of NV_ESC_RM_ALLOC.
func allocation(client, parent, object, class uint32) []byte {
	b := make([]byte, allocBytes)
	binary.LittleEndian.PutUint32(b[allocClient:], client)
	binary.LittleEndian.PutUint32(b[allocParent:], parent)
	binary.LittleEndian.PutUint32(b[allocObject:], object)
	binary.LittleEndian.PutUint32(b[allocClass:], class)
	return b
}

// pass waits while channels of a kind are stopped.
func (c *fakeControl) pass(kind int) {
	for hostmem.LoadUint32(c.mem, kind) != 0 {
		time.Sleep(20 * time.Microsecond)
	}
}

// fakeCall is the fake's RM, in a keeper.
func fakeCall(fd int, request uint32, argument, params []byte) unix.Errno {
	switch command := binary.LittleEndian.Uint32(argument[controlCommand:]); {
	case request == requestIdle:
		return fakeIdle(fd, argument)
	case request == requestAlloc:
		return theStore.allocate(fd, argument, params)
	case request == requestFree:
		return 0 // pages of a store are never used again
	case request == requestControl && command == exportToFD:
		binary.LittleEndian.PutUint32(argument[controlStatus:], theStore.export(fd, params))
		return 0
	case request == requestControl && command == importFromFD:
		binary.LittleEndian.PutUint32(argument[controlStatus:], theStore.take(fd, params))
		return 0
	}
	if request != requestControl || binary.LittleEndian.Uint32(argument[controlCommand:]) != disableChannels {
		return unix.ENOTTY
	}
	var word [4]byte
	if _, err := unix.Pread(fd, word[:], fakeFreed); err != nil {
		return unix.EIO
	}
	status := badObjects(argument, params)
	if word[0] != 0 {
		status = badChannel
	}
	binary.LittleEndian.PutUint32(argument[controlStatus:], status)
	if status != 0 {
		return 0
	}
	n := binary.LittleEndian.Uint32(params[disableCount:])
	for i := range n {
		at := int64(fakeCopiesOff)
		if binary.LittleEndian.Uint32(params[disableHandles+4*i:]) < fakeChannel+fakeComputes {
			at = fakeKernelsOff
		}
		if _, err := unix.Pwrite(fd, []byte{params[disableOff], 0, 0, 0}, at); err != nil {
			return unix.EIO
		}
	}
	for params[disableOff] != 0 { // until they have left
		if _, err := unix.Pread(fd, word[:], fakeInside); err != nil {
			return unix.EIO
		}
		if word == [4]byte{} {
			break
		}
		time.Sleep(10 * time.Microsecond)
	}
	return 0
}

// fakeIdle waits for a channel.
func fakeIdle(fd int, argument []byte) unix.Errno {
	var word [4]byte
	if _, err := unix.Pread(fd, word[:], fakeWorks); err != nil {
		return unix.EIO
	}
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(argument[at:]) }
	status := uint32(0)
	switch {
	case field(idleClient) != fakeClient0 || field(idleDevice) != fakeDevice0 || field(idleChannel)-fakeChannel >= fakeComputes || field(idleCount) != 1:
		status = badChannel
	case word[0] != 0:
		status = statusTimeout
	}
	binary.LittleEndian.PutUint32(argument[idleStatus:], status)
	return 0
}

// badObjects is the status of a control that names objects which do not exist.
func badObjects(argument, params []byte) uint32 {
	if binary.LittleEndian.Uint32(argument[controlClient:]) != fakeClient0 || binary.LittleEndian.Uint32(argument[controlObject:]) != fakeSub || len(params) != disableBytes {
		return 0x57 // NV_ERR_OBJECT_NOT_FOUND
	}
	n := binary.LittleEndian.Uint32(params[disableCount:])
	if n == 0 || n > disableMost {
		return 0x1f // NV_ERR_INVALID_ARGUMENT
	}
	for i := range n {
		client, channel := binary.LittleEndian.Uint32(params[disableClients+4*i:]), binary.LittleEndian.Uint32(params[disableHandles+4*i:])
		if client != fakeClient0 || channel-fakeChannel >= fakeChannels {
			return badChannel
		}
	}
	return 0
}

// ServeFake runs a worker on a driver that is none.
func ServeFake(confine Confine) error {
	controlDevice = fmt.Sprintf("/memfd:%s (deleted)", fakeControlIs)
	return serveWorker(newFake(), nil, confine, cmp.Or(os.Getenv("PVDRM_TEST_CUDA_LIBS"), host.None))
}

// FakeKeeper makes this process, a keeper, one of workers with the fake driver.
func FakeKeeper() {
	callRM = fakeCall
	theStore.init()
}

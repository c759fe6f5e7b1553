package nvidia

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"pvdrm/internal/usernotify"
)

// NV_ESC_RM_CONTROL is one request that stands for some thousand controls, told apart in memory
// that a filter of system calls does not see. Among them is one that stops the channels of any
// client (NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS: it looks up the handles of its list everywhere),
// and others that lengthen time slices or pass objects on. NVIDIA's driver calls a handful while
// it serves, to find out about faults. So a worker does not get to make the request itself: a
// filter of its own traps it, and its keeper, which no guest reaches, makes those that are in
// servingControls, with a copy of the arguments, on a duplicate of the worker's descriptor, to
// which the worker's handles belong.

// requestControl is NV_ESC_RM_CONTROL with its argument, an NVOS54_PARAMETERS.
const (
	requestControl   = 0xc0000000 | controlBytes<<16 | typeControl
	typeControl      = 'F'<<8 | 0x2a
	typeMask         = 0xffff // type and number
	controlBytes     = 32     // client, object, command, flags, address and size of parameters, status
	controlCommand   = 8
	controlParams    = 16
	controlSize      = 24
	controlStatus    = 28
	maxControlParams = 64 << 10 // bytes
)

// handover gives a keeper what it needs to answer a worker: the descriptors of the listener, of
// the worker's memory, and of its devices, which have these numbers in the worker.
type handover struct{ Devices []int32 }

// maxDevices is how many descriptors of the device a worker may have.
const maxDevices = 64

// controlDevice is where controls go.
const controlDevice = "/dev/nvidiactl"

// yieldControls traps the controls of this process from now on, and hands them over to the keeper
// at the other end of a link.
func yieldControls(keeper *link) error {
	var h handover
	fds := []int{-1, -1}
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return err
	}
	for _, path := range files {
		if target, err := os.Readlink(path); err != nil || target != controlDevice {
			continue // another one, or that by which the directory was read
		}
		fd, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			return err
		}
		h.Devices, fds = append(h.Devices, int32(fd)), append(fds, fd)
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = mem.Close() }() // the keeper has it
	listener, err := usernotify.Install(usernotify.Calls(typeMask, typeControl), true)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // likewise
	fds[0], fds[1] = int(listener), int(mem.Fd())
	return keeper.send(&h, fds)
}

// guard answers the controls of one worker, in its keeper.
type guard struct {
	listener usernotify.Listener
	memory   *os.File      // of the worker
	devices  map[int32]int // our descriptors, by number in the worker
	controls []uint32      // that it may have
	// control makes the request with an argument whose parameters are those.
	control func(fd int, argument, params []byte) unix.Errno
}

// guardWorker serves a worker's controls until it has ended. A worker that is not confined hands
// nothing over.
func guardWorker(worker *link) error {
	defer worker.close()
	var h handover
	if err := worker.decode(&h, maxMessage); err != nil {
		return nil // it ended, or has no need
	}
	fds, err := worker.takeFDs(2 + len(h.Devices))
	if err != nil {
		return err
	}
	g := guard{listener: usernotify.Listener(fds[0]), memory: os.NewFile(uintptr(fds[1]), "memory of the worker"),
		devices: map[int32]int{}, controls: servingControls, control: makeControl}
	defer func() {
		_ = errors.Join(g.listener.Close(), g.memory.Close()) // no worker is left that could be answered
		for _, fd := range g.devices {
			_ = unix.Close(fd) // the last reference, perhaps
		}
	}()
	for i, number := range h.Devices {
		g.devices[number] = fds[2+i]
	}
	return g.serve()
}

func (g *guard) serve() error {
	for {
		var c usernotify.Call
		came, err := g.listener.Receive(&c, -1)
		if errors.Is(err, usernotify.ErrEnded) {
			return nil
		}
		if err == nil && came {
			err = g.listener.Answer(&c, g.answer(&c))
		}
		if err != nil {
			return fmt.Errorf("RM controls of a CUDA worker: %w", err)
		}
	}
}

// answer makes the control that a call asks for, if the worker may have it. What the worker writes
// meanwhile makes no difference.
func (g *guard) answer(c *usernotify.Call) unix.Errno {
	fd, ok := g.devices[int32(c.Args[0])]
	at := int64(c.Args[2])
	argument := make([]byte, controlBytes)
	if !ok || uint32(c.Args[1]) != requestControl || at < 0 {
		return unix.EPERM
	}
	if _, err := g.memory.ReadAt(argument, at); err != nil {
		return unix.EFAULT
	}
	size := binary.LittleEndian.Uint32(argument[controlSize:])
	if !slices.Contains(g.controls, binary.LittleEndian.Uint32(argument[controlCommand:])) || size > maxControlParams {
		return unix.EPERM
	}
	from := int64(binary.LittleEndian.Uint64(argument[controlParams:]))
	params := make([]byte, size)
	if from < 0 {
		return unix.EFAULT
	}
	if _, err := g.memory.ReadAt(params, from); err != nil {
		return unix.EFAULT
	}
	if errno := g.control(fd, argument, params); errno != 0 {
		return errno
	}
	_, err := g.memory.WriteAt(params, from)
	if err == nil {
		_, err = g.memory.WriteAt(argument[controlStatus:], at+controlStatus)
	}
	if err != nil {
		return unix.EFAULT
	}
	return 0
}

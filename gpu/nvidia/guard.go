package nvidia

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
	"pvdrm/internal/usernotify"
)

// Two requests of NVIDIA's driver stand for many, told apart in memory that a filter of system
// calls does not see. NV_ESC_RM_CONTROL is some thousand controls. Among them is one that stops the
// channels of any client (NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS: it looks up the handles of its list
// everywhere), and others that lengthen time slices or pass objects on. NV_ESC_RM_ALLOC makes any
// object, such as a channel. While it serves, the driver makes a handful of the controls, to find out
// about faults, and allocates memory.
//
// So a filter of the worker traps both requests for its whole life, and NV_ESC_RM_FREE, so that what the
// worker has can be counted (account). Its keeper, which no guest reaches, answers them:
//
//	starting ──seal──► serving
//
// A worker that starts is trusted. Its keeper lets each call go on, and notes the channels and what
// they belong to (census). When the worker has started it seals itself, in a call that is trapped
// too, and gets no more than what servingControls and servingClasses have. The keeper makes these
// calls itself, with a copy of the arguments, on a duplicate of the worker's descriptor, to which
// the worker's handles belong. So no channel comes about later that the keeper does not know, and
// it can stop all that the worker runs (stopper).

// guard answers the trapped requests of one worker, in its keeper.
type guard struct {
	listener usernotify.Listener
	memory   *os.File        // of the worker
	link     *link           // on which its descriptors come
	devices  map[int32]int   // our descriptors, by number in the worker; nil until it is sealed
	controls []uint32        // that it may have
	classes  []uint32        // of which it may have objects
	clients  map[uint32]bool // that it may name; nil for any, of which the driver knows the owners
	call     rmCall
	seen     census
	stopper  *stopper
	account  *account
}

// callRM makes the requests.
var callRM rmCall = makeCall

// guardWorker answers a worker until it has ended. A worker that is not confined hands nothing over.
func guardWorker(worker *link, stop int, pages *store, of *account) error {
	defer worker.close()
	defer of.close()
	var h handover
	if err := worker.decode(&h, maxMessage); err != nil {
		unixsock.Close([]int{stop})
		return nil // it ended, or has no need
	}
	fds, err := worker.takeFDs(2)
	if err != nil {
		unixsock.Close([]int{stop})
		return err
	}
	g := guard{listener: usernotify.Listener(fds[0]), memory: os.NewFile(uintptr(fds[1]), "memory of the worker"), link: worker,
		controls: servingControls, classes: servingClasses, call: callRM, stopper: newStopper(stop, pages), account: of}
	g.stopper.keeps.made.count = of.page[accountMade:]
	g.listener.WakeInTurn()
	defer func() {
		g.stopper.close()
		_ = errors.Join(g.listener.Close(), g.memory.Close()) // no worker is left that could be answered
		for _, fd := range g.devices {
			_ = unix.Close(fd) // the last reference, perhaps
		}
	}()
	return g.serve(g.handle)
}

// serve has each call handled until the worker has ended.
func (g *guard) serve(handle func(*usernotify.Call) error) error {
	for {
		var c usernotify.Call
		came, err := g.listener.Receive(&c, -1)
		if errors.Is(err, usernotify.ErrEnded) {
			return nil
		}
		if err == nil && came {
			err = handle(&c)
		}
		if err != nil {
			return fmt.Errorf("RM requests of a worker: %w", err)
		}
	}
}

// handle answers a call. An error ends the worker.
func (g *guard) handle(c *usernotify.Call) error {
	switch {
	case g.devices != nil && !g.onlyCounts(c):
		return g.listener.Answer(c, g.answer(c))
	case uint32(c.Args[1]) == requestSeal:
		if err := g.seal(); err != nil {
			return err
		}
		return g.listener.Answer(c, 0)
	case uint32(c.Args[1])&typeMask == typeAlloc:
		g.note(c)
	case uint32(c.Args[1])&typeMask == typeFree:
		g.noteFree(int64(c.Args[2]))
	}
	return g.listener.Proceed(c)
}

// note counts an object that a worker is about to make.
func (g *guard) note(c *usernotify.Call) {
	at, argument := int64(c.Args[2]), make([]byte, allocParams+8)
	if at < 0 {
		return // the driver refuses it
	}
	if _, err := g.memory.ReadAt(argument, at); err == nil {
		g.seen.add(int32(c.Args[0]), argument)
		g.noteMemory(argument)
	}
}

// seal takes the descriptors of a worker that has started, and finds out whether it can be stopped.
func (g *guard) seal() error {
	h, err := g.takeDevices()
	if err != nil {
		return err
	}
	t, err := g.seen.target(g.devices)
	g.stopper.begin(t, err, g.call, h.Runs)
	return nil
}

// takeDevices takes the descriptors of a worker that has started.
func (g *guard) takeDevices() (h handover, err error) {
	if err := g.link.decode(&h, maxMessage); err != nil {
		return h, err
	}
	fds, err := g.link.takeFDs(len(h.Devices))
	if err != nil {
		return h, err
	}
	g.devices = map[int32]int{}
	for i, number := range h.Devices {
		g.devices[number] = fds[i]
	}
	return h, nil
}

// answer makes the call of a sealed worker, if it may have it.
func (g *guard) answer(c *usernotify.Call) unix.Errno {
	fd, ok := g.devices[int32(c.Args[0])]
	switch request := uint32(c.Args[1]); {
	case !ok:
		return unix.EPERM
	case request == requestControl:
		return g.make(fd, request, int64(c.Args[2]), ruleOfControls)
	case request == requestAlloc:
		return g.make(fd, request, int64(c.Args[2]), ruleOfAllocations)
	case request == requestFree:
		return g.free(fd, int64(c.Args[2]))
	}
	return unix.EPERM
}

// make makes a call with an argument at an address of the worker, if the rule allows it. What the
// worker writes meanwhile makes no difference.
func (g *guard) make(fd int, request uint32, at int64, allows rule) unix.Errno {
	argument := make([]byte, request>>16&0x3fff)
	if at < 0 {
		return unix.EPERM
	}
	if _, err := g.memory.ReadAt(argument, at); err != nil {
		return unix.EFAULT
	}
	may, ok := allows(g, argument)
	if !ok || may.size > maxParams || !g.owns(argument) {
		return unix.EPERM
	}
	size := may.size
	address := binary.LittleEndian.Uint64(argument[paramsAddress:])
	from := int64(address)
	params := make([]byte, max(size, may.room))
	if from < 0 {
		return unix.EFAULT
	}
	if _, err := g.memory.ReadAt(params[:size], from); err != nil {
		return unix.EFAULT
	}
	if may.check != nil && !may.check(g, params) {
		return unix.EPERM
	}
	binary.LittleEndian.PutUint64(argument[paramsAddress:], 0)
	if len(params) == 0 {
		params = nil
	}
	if errno := g.perform(fd, request, argument, params); errno != 0 {
		return errno
	}
	binary.LittleEndian.PutUint64(argument[paramsAddress:], address)
	_, err := g.memory.WriteAt(params[:size], from)
	if err == nil {
		_, err = g.memory.WriteAt(argument, at)
	}
	if err != nil {
		return unix.EFAULT
	}
	return 0
}

// perform makes a call that a worker may have.
func (g *guard) perform(fd int, request uint32, argument, params []byte) unix.Errno {
	switch {
	case request != requestAlloc:
	case g.stopper != nil:
		return g.allocate(fd, argument, params)
	case g.clients != nil && binary.LittleEndian.Uint32(argument[allocClass:]) == classGLChannel:
		return g.count(channelBytes, true, argument, func() unix.Errno { return g.call(fd, request, argument, params) })
	}
	return g.call(fd, request, argument, params)
}

// owns reports whether the client by whose name a request comes is one that the worker may name.
func (g *guard) owns(argument []byte) bool {
	return g.clients == nil || g.clients[binary.LittleEndian.Uint32(argument)]
}

// permit is how a worker may have a call.
type permit struct {
	size  uint32                             // of the parameters that it has
	room  uint32                             // bytes that the driver may read and write there, if that is more
	check func(g *guard, params []byte) bool // nil for any parameters
}

// rule reports whether a worker may have a call.
type rule func(g *guard, argument []byte) (p permit, may bool)

// ruleOfControls is the rule of NV_ESC_RM_CONTROL.
func ruleOfControls(g *guard, argument []byte) (p permit, may bool) {
	command := binary.LittleEndian.Uint32(argument[controlCommand:])
	if !slices.Contains(g.controls, command) {
		return p, false
	}
	if command == resetChannel {
		g.stopper.awaitRunning() // it could bring a channel back that is stopped
	}
	return permit{size: binary.LittleEndian.Uint32(argument[controlSize:])}, true
}

// ruleOfAllocations is the rule of NV_ESC_RM_ALLOC. The driver knows the size of the parameters by the
// class, and newer drivers have larger ones.
func ruleOfAllocations(g *guard, argument []byte) (p permit, may bool) {
	if !slices.Contains(g.classes, binary.LittleEndian.Uint32(argument[allocClass:])) || binary.LittleEndian.Uint64(argument[allocRights:]) != 0 {
		return p, false
	}
	switch binary.LittleEndian.Uint32(argument[allocSize:]) {
	case 0, memoryParams:
		return permit{size: memoryParams, room: largestParams, check: withoutAddress}, true
	}
	return p, false
}

// largestParams is how many bytes of parameters the class of an object may have in a newer driver.
const largestParams = 4 << 10

// withoutAddress refuses memory of a process, which would be this one.
func withoutAddress(_ *guard, params []byte) bool {
	return binary.LittleEndian.Uint64(params[memoryAddress:]) == 0
}

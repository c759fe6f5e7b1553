package nvidia

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/usernotify"
)

// glGuard answers what a worker asks of NVIDIA's driver that draws for a guest. As with CUDA (guard), it lets a
// worker that starts have what it likes, and notes which clients of the resource manager it names. From its seal on it
// makes what glAnswered, glControls and glClasses have, in those clients only, and refuses the rest. Unlike libcuda,
// NVIDIA's OpenGL opens its devices again and again while it serves, for each mapping: the guard opens
// them, of those that the worker had, and gives it the descriptors.
type glGuard struct {
	guard
	paths    map[string]bool // that may be opened
	idle     func(fd int, argument []byte, lists [3][]byte) unix.Errno
	refusals *refusals
}

// mostClients bounds the clients that are noted of a worker; it has ten.
const mostClients = 256

// guardGL answers a worker until it has ended. A worker that is not confined hands nothing over.
func guardGL(worker *link, of *account, r *refusals) error {
	defer worker.close()
	defer of.close()
	var h handover
	if err := worker.decode(&h, maxMessage); err != nil {
		return nil // it ended, or has no need
	}
	fds, err := worker.takeFDs(2)
	if err != nil {
		return err
	}
	g := glGuard{guard: guard{listener: usernotify.Listener(fds[0]), memory: os.NewFile(uintptr(fds[1]), "memory of the worker"),
		link: worker, clients: map[uint32]bool{}, call: callRM, account: of}, idle: idleCall, refusals: r}
	g.listener.WakeInTurn()
	defer func() {
		_ = errors.Join(g.listener.Close(), g.memory.Close()) // no worker is left that could be answered
		for _, fd := range g.devices {
			_ = unix.Close(fd) // the last reference, perhaps
		}
	}()
	return g.serve(g.handle)
}

// handle answers a call. An error ends the worker.
func (g *glGuard) handle(c *usernotify.Call) error {
	request := uint32(c.Args[1])
	switch {
	case g.devices != nil && c.Number == unix.SYS_OPENAT:
		return g.open(c)
	case g.devices != nil:
		return g.listener.Answer(c, g.answer(c))
	case c.Number == unix.SYS_OPENAT:
	case request == requestSeal:
		if err := g.seal(); err != nil {
			return err
		}
		return g.listener.Answer(c, 0)
	default:
		g.meet(c)
	}
	return g.listener.Proceed(c)
}

// meet notes the client that a worker names while it starts: all requests that are trapped begin with one.
func (g *glGuard) meet(c *usernotify.Call) {
	at, client := int64(c.Args[2]), make([]byte, 4)
	if at < 0 || len(g.clients) == mostClients {
		return // the driver refuses it, or the worker does not get far
	}
	if _, err := g.memory.ReadAt(client, at); err == nil {
		if n := binary.LittleEndian.Uint32(client); n != 0 { // what makes a client names none
			g.clients[n] = true
		}
	}
}

// seal takes the devices of a worker that has started.
func (g *glGuard) seal() error {
	if _, err := g.takeDevices(); err != nil {
		return err
	}
	g.paths = map[string]bool{}
	for _, fd := range g.devices {
		path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil {
			return err
		}
		g.paths[path] = true
	}
	return nil
}

// longestPath is how long the name of a device of NVIDIA's may be, with the zero at its end.
const longestPath = 64

// open opens a device for a sealed worker. Of other files there are none.
func (g *glGuard) open(c *usernotify.Call) error {
	path := g.pathAt(int64(c.Args[1]))
	if flags := int(c.Args[2]); !g.paths[path] || flags&^unix.O_CLOEXEC != unix.O_RDWR {
		return g.listener.Answer(c, unix.EACCES)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		var errno unix.Errno
		errors.As(err, &errno) // unix.Open returns no other
		return g.listener.Answer(c, errno)
	}
	number, err := g.listener.Give(c, fd)
	if number < 0 || err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	if old, ok := g.devices[int32(number)]; ok { // which the worker has closed
		_ = unix.Close(old) // it was only kept for requests by that number
	}
	g.devices[int32(number)] = fd
	return nil
}

// pathAt reads a path of the worker's; "" if there is none that may be opened.
func (g *glGuard) pathAt(at int64) string {
	if at < 0 {
		return ""
	}
	b := make([]byte, longestPath)
	n, _ := g.memory.ReadAt(b, at) // its memory may end before
	path, _, ended := strings.Cut(string(b[:n]), "\x00")
	if !ended {
		return ""
	}
	return path
}

// answer makes the call of a sealed worker, if it may have it.
func (g *glGuard) answer(c *usernotify.Call) unix.Errno {
	fd, ok := g.devices[int32(c.Args[0])]
	if !ok {
		return unix.EPERM
	}
	at := int64(c.Args[2])
	switch request := uint32(c.Args[1]); request {
	case requestControl:
		return g.make(fd, request, at, g.refusals.ruleOfGL(controlCommand, glControls, controlSize))
	case requestAlloc:
		return g.make(fd, request, at, g.refusals.ruleOfGL(allocClass, glClasses, allocSize))
	case requestFree:
		return g.free(fd, at)
	case requestHeap:
		return g.heap(fd, at)
	case requestIdle:
		return g.await(fd, at)
	}
	return unix.EPERM
}

// ruleOfGL is the rule by a table. The argument has at what is asked for, and at size the bytes of its parameters. Those
// of a class may be left to the driver, which then takes as many as the class has.
func (r *refusals) ruleOfGL(what int, table []glRule, size int) rule {
	return func(_ *guard, argument []byte) (p permit, may bool) {
		field := func(at int) uint32 { return binary.LittleEndian.Uint32(argument[at:]) }
		allocates := what == allocClass
		for i := range table {
			t := &table[i]
			switch {
			case t.Number != field(what):
				continue
			case field(size) != t.Size && !(allocates && field(size) == 0):
			case allocates && binary.LittleEndian.Uint64(argument[allocRights:]) != 0:
			default:
				return t.permit(argument), true
			}
			break
		}
		r.note(allocates, field(what), field(size))
		return p, false
	}
}

// permit returns how a worker may have what a rule is about.
func (t *glRule) permit(argument []byte) (p permit) {
	if t.Size == 0 || binary.LittleEndian.Uint64(argument[paramsAddress:]) == 0 {
		return p // without parameters
	}
	p.size, p.room = t.Size, max(t.Size, largestParams)
	if t.Client {
		p.check = (*guard).owns
	}
	return p
}

// heap makes the call by which a worker gets memory or addresses, and counts VRAM.
func (g *glGuard) heap(fd int, at int64) unix.Errno {
	argument, errno := g.argument(at, heapBytes)
	if errno != 0 {
		return errno
	}
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(argument[at:]) }
	if !g.owns(argument) || field(heapFunction) != heapAllocate || binary.LittleEndian.Uint64(argument[heapAddress:]) != 0 {
		return unix.EPERM
	}
	var n uint64
	if attr := field(heapAttr); field(heapFlags)&heapVirtual == 0 && attr>>locationShift&locationMask == locationVRAM {
		n = inPages(binary.LittleEndian.Uint64(argument[heapSize:]), attr, field(heapAttr2))
	}
	switch {
	case n != 0 && !g.account.reserve(n, true):
		binary.LittleEndian.PutUint32(argument[heapStatus:], statusNoMemory)
	default:
		if errno := g.call(fd, requestHeap, argument, nil); errno != 0 {
			g.account.cancel(n)
			return errno
		}
		if field(heapStatus) != 0 {
			g.account.cancel(n)
		} else if n != 0 {
			g.account.add(objectName{client: field(heapClient), handle: field(heapMemory)}, field(heapParent), n)
		}
	}
	return g.put(argument, at)
}

// argument copies the argument of a request.
func (g *glGuard) argument(at int64, n int) ([]byte, unix.Errno) {
	b := make([]byte, n)
	if at < 0 {
		return nil, unix.EFAULT
	}
	if _, err := g.memory.ReadAt(b, at); err != nil {
		return nil, unix.EFAULT
	}
	return b, 0
}

// put gives a worker the argument back.
func (g *glGuard) put(argument []byte, at int64) unix.Errno {
	if _, err := g.memory.WriteAt(argument, at); err != nil {
		return unix.EFAULT
	}
	return 0
}

// How long a keeper waits in the driver at once, in microseconds, and how long in all.
const (
	idlePart  = 5000
	idleLimit = 5 * time.Second
)

// await makes the call by which a worker waits for channels of its own.
func (g *glGuard) await(fd int, at int64) unix.Errno {
	argument, errno := g.argument(at, idleBytes)
	if errno != 0 {
		return errno
	}
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(argument[at:]) }
	n := field(idleCount)
	if !g.owns(argument) || n == 0 || n > maxIdle || field(idleFlags)&idleSingle != 0 {
		return unix.EPERM
	}
	var lists [3][]byte
	var addresses [3]uint64
	for i := range lists {
		addresses[i] = binary.LittleEndian.Uint64(argument[idleLists+8*i:])
		if lists[i], errno = g.argument(int64(addresses[i]), int(4*n)); errno != 0 {
			return errno
		}
	}
	for b := lists[0]; len(b) > 0; b = b[4:] {
		if !g.owns(b) {
			return unix.EPERM
		}
	}
	asked := field(idleTimeout)
	for end := time.Now().Add(min(time.Duration(asked)*time.Microsecond, idleLimit)); ; {
		binary.LittleEndian.PutUint32(argument[idleTimeout:], min(asked, idlePart))
		if errno := g.idle(fd, argument, lists); errno != 0 {
			return errno
		}
		if field(idleStatus) != statusTimeout || !time.Now().Before(end) {
			break
		}
	}
	binary.LittleEndian.PutUint32(argument[idleTimeout:], asked)
	for i, a := range addresses {
		binary.LittleEndian.PutUint64(argument[idleLists+8*i:], a)
	}
	return g.put(argument, at)
}

// maxIdle bounds the channels that are waited for at once.
const maxIdle = 64

// refusals tells people what was refused, so that they can see why a guest does not draw.
type refusals struct {
	mu   sync.Mutex
	told map[[2]uint32]bool
	to   io.Writer // nil for the standard error
}

// mostRefusals bounds the lines of a keeper.
const mostRefusals = 32

// note tells of a control, or an object of a class, that no worker was refused before.
func (r *refusals) note(allocates bool, number, size uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, what := [2]uint32{number, 0}, "control"
	if allocates {
		key, what = [2]uint32{number, 1}, "class"
	}
	if r.told[key] || len(r.told) >= mostRefusals {
		return
	}
	if r.told == nil {
		r.told = map[[2]uint32]bool{}
	}
	r.told[key] = true
	to := r.to
	if to == nil {
		to = os.Stderr
	}
	fmt.Fprintf(to, "NVIDIA's OpenGL was refused %s %#x (%d bytes): it is not in the table of docs/security.md\n", what, number, size)
}

package virgl

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// First words of submissions to which the fake library answers in its own way.
const (
	FakeHang    = 1 // never returns
	FakeExit    = 2 // ends the process
	FakeRefuse  = 3 // EINVAL
	FakeNoFence = 4 // nothing that follows retires
)

// fakeLibrary is a library that does nothing but remember what exists.
func fakeLibrary() *library {
	ready, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		panic(err)
	}
	l := &library{}
	contexts, resources := map[uint32]bool{}, map[uint32]bool{}
	stuck := false
	known := func(ok bool) int32 {
		if ok {
			return 0
		}
		return int32(unix.EINVAL)
	}
	last := uint32(0)
	l.init = func(int32, target) int32 { return 0 }
	l.poll = func() {
		var b [8]byte
		_, _ = unix.Read(ready, b[:]) // empty is fine too
		if !stuck {
			l.retired = last
		}
	}
	l.pollFD = func() int32 { return int32(ready) }
	l.capset = func(set uint32) (version, size uint32) { return set, 8 * set }
	l.fillCaps = func(uint32, uint32, *byte) {}
	l.contextCreate = func(id, _ uint32, _ *byte) int32 {
		contexts[id] = true
		return 0
	}
	l.contextDestroy = func(id uint32) { delete(contexts, id) }
	l.resourceCreate = func(a *resourceArgs, _ uintptr, _ uint32) int32 {
		resources[a.handle] = true
		return 0
	}
	l.resourceUnref = func(id uint32) { delete(resources, id) }
	l.resourceAttachIOV = func(id uint32, _ uintptr, _ int32) int32 { return known(resources[id]) }
	l.resourceDetachIOV = func(uint32) {}
	l.ctxAttach, l.ctxDetach = func(uint32, uint32) {}, func(uint32, uint32) {}
	l.transferRead = func(id, ctx, _, _, _ uint32, _ *box, _ uint64, _ uintptr, _ int32) int32 {
		return known(resources[id] && (ctx == 0 || contexts[ctx]))
	}
	l.transferWrite = func(id, ctx uint32, _ int32, _, _ uint32, _ *box, _ uint64, _ uintptr, _ uint32) int32 {
		return known(resources[id] && contexts[ctx])
	}
	l.submit = func(cmd *byte, ctx, _ int32) int32 {
		switch *cmd {
		case FakeHang:
			select {}
		case FakeExit:
			os.Exit(9)
		case FakeRefuse:
			return int32(unix.EINVAL)
		case FakeNoFence:
			stuck = true
		}
		return known(contexts[uint32(ctx)])
	}
	l.createFence = func(id int32, _ uint32) int32 {
		last = uint32(id)
		one := binary.NativeEndian.AppendUint64(nil, 1)
		_, _ = unix.Write(ready, one) // an eventfd of ours takes it
		return 0
	}
	return l
}

// ServeFake is the program of a worker on the fake library.
func ServeFake() error { return serveWorker(WorkerConfig{}, fakeLibrary(), nil) }

// ServeFakeThatLooks is the same of one that looks before it sleeps, as if it drew with a GPU.
func ServeFakeThatLooks(look time.Duration) error {
	w := newWorker(fakeLibrary())
	w.looks.most = look
	return w.main(WorkerConfig{}, nil)
}

// LookAnyway has backends look before they sleep, however few processors there are.
func LookAnyway() { lookProcessors = 0 }

// SetLimit changes Config.Limit. Precondition: a done function calls it, for the pump reads the limit.
func (r *Renderer) SetLimit(d time.Duration) { r.cfg.Limit = d }

// KeeperPID is the process that starts the workers of r.
func (r *Renderer) KeeperPID() int { return r.keeper.PID() }

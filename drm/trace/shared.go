package trace

import (
	"encoding/binary"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// What follows of a Recorder is what a drm.Driver does beyond a drm.File.

// GemInfo is not recorded: GemNew and GemSize are.
func (r *Recorder) GemInfo(h uint32) (drm.GemInfo, error) {
	if r.driver == nil {
		return drm.GemInfo{}, syscall.EOPNOTSUPP
	}
	return r.driver.GemInfo(h)
}

func (r *Recorder) CPUPrep(h uint32, timeout time.Duration) error {
	if r.driver == nil {
		return syscall.EOPNOTSUPP
	}
	start := r.w.now()
	r.w.mem.mu.Lock()
	var points []drm.Point
	for _, f := range r.flights {
		points = append(points, f.point)
	}
	r.w.mem.mu.Unlock()
	err := r.driver.CPUPrep(h, timeout)
	r.event(OpCPUPrep, start, err, Event{In: numbers(uint64(h), uint64(timeout))})
	r.waited(err, points...)
	return err
}

func (r *Recorder) SyncobjCreate(signaled bool) (uint32, error) {
	if r.driver == nil {
		return 0, syscall.EOPNOTSUPP
	}
	start := r.w.now()
	h, err := r.driver.SyncobjCreate(signaled)
	flag := uint64(0)
	if signaled {
		flag = 1
	}
	r.made(OpSyncobjCreate, start, err, Event{In: numbers(flag), Out: numbers(uint64(h))})
	return h, err
}

func (r *Recorder) SyncobjDestroy(h uint32) error {
	if r.driver == nil {
		return syscall.EOPNOTSUPP
	}
	r.ids.Lock()
	defer r.ids.Unlock()
	start := r.w.now()
	err := r.driver.SyncobjDestroy(h)
	if err == nil {
		r.forget(h)
	}
	r.event(OpSyncobjDestroy, start, err, Event{In: numbers(uint64(h))})
	return err
}

func (r *Recorder) SyncobjReset(handles []uint32) error {
	if r.driver == nil {
		return syscall.EOPNOTSUPP
	}
	return r.setSyncobjs(OpSyncobjReset, handles, r.driver.SyncobjReset)
}

func (r *Recorder) SyncobjSignal(handles []uint32) error {
	if r.driver == nil {
		return syscall.EOPNOTSUPP
	}
	return r.setSyncobjs(OpSyncobjSignal, handles, r.driver.SyncobjSignal)
}

func (r *Recorder) setSyncobjs(op Op, handles []uint32, set func([]uint32) error) error {
	start := r.w.now()
	err := set(handles)
	if err == nil {
		r.forget(handles...)
	}
	r.event(op, start, err, Event{InBytes: [][]byte{appendHandles(handles)}})
	return err
}

// forget notes that sync objects stand for no point any more.
func (r *Recorder) forget(handles ...uint32) {
	r.w.mem.mu.Lock()
	defer r.w.mem.mu.Unlock()
	for _, h := range handles {
		delete(r.points, h)
	}
}

func (r *Recorder) SyncobjWait(handles []uint32, all, forSubmit bool, timeout time.Duration) (int, error) {
	if r.driver == nil {
		return 0, syscall.EOPNOTSUPP
	}
	start := r.w.now()
	first, err := r.driver.SyncobjWait(handles, all, forSubmit, timeout)
	flags := uint64(0)
	if all {
		flags |= drm.SyncobjWaitAll
	}
	if forSubmit {
		flags |= drm.SyncobjWaitForSubmit
	}
	r.event(OpSyncobjWait, start, err, Event{In: numbers(flags, uint64(timeout)), InBytes: [][]byte{appendHandles(handles)}, Out: numbers(uint64(first))})
	var points []drm.Point
	r.w.mem.mu.Lock()
	for i, h := range handles {
		if p, ok := r.points[h]; ok && (all || i == first) {
			points = append(points, p)
		}
	}
	r.w.mem.mu.Unlock()
	r.waited(err, points...)
	return first, err
}

func (r *Recorder) ExecSync(channel uint32, stream []byte, waits, signals []uint32) (uint64, error) {
	if r.driver == nil {
		return 0, syscall.EOPNOTSUPP
	}
	return r.exec(OpExecSync, channel, stream, [][]byte{appendHandles(waits), appendHandles(signals)}, signals,
		func() (uint64, error) { return r.driver.ExecSync(channel, stream, waits, signals) })
}

func (r *Recorder) PrimeExport(h uint32) (int, error) {
	if r.driver == nil {
		return -1, syscall.EOPNOTSUPP
	}
	start := r.w.now()
	fd, err := r.driver.PrimeExport(h)
	var buffer uint64
	if err == nil {
		buffer = r.w.mem.share(r.recording, h, fd)
	}
	r.event(OpPrimeExport, start, err, Event{In: numbers(uint64(h)), Out: numbers(buffer)})
	return fd, err
}

func (r *Recorder) PrimeImport(fd int) (uint32, error) {
	if r.driver == nil {
		return 0, syscall.EOPNOTSUPP
	}
	start := r.w.now()
	h, err := r.driver.PrimeImport(fd)
	buffer := r.w.mem.buffer(fd)
	if err == nil {
		buffer = r.w.mem.share(r.recording, h, fd)
	}
	r.made(OpPrimeImport, start, err, Event{In: numbers(buffer), Out: numbers(uint64(h))})
	return h, err
}

// appendHandles is the form of a list of handles: u32 each.
func appendHandles(list []uint32) (b []byte) {
	for _, h := range list {
		b = binary.LittleEndian.AppendUint32(b, h)
	}
	return b
}

// handles decodes such a list; what is left of a handle is ignored.
func handles(b []byte) (list []uint32) {
	for ; len(b) >= 4; b = b[4:] {
		list = append(list, binary.LittleEndian.Uint32(b))
	}
	return list
}

// inode tells memory apart that descriptors refer to.
type inode struct{ dev, ino uint64 }

func inodeOf(fd int) (inode, bool) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return inode{st.Dev, st.Ino}, err == nil
}

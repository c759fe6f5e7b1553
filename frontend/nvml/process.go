package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// noInstance stands for the instance of the GPU and of compute that a process uses, without MIG.
const noInstance = 1<<32 - 1

// running makes the handler that lists processes with their memory, in structs of a version of
// nvmlProcessInfo_t.
func running(entry func([]byte, uint32, uint64) []byte, size int) func(*call) error {
	return func(c *call) error {
		u, err := c.file.Usage()
		if err != nil {
			return err
		}
		var list []byte
		for _, p := range byProcess(u.Clients) {
			list = entry(list, p.Process, p.VRAM)
		}
		return c.list(list, size)
	}
}

// list writes structs of a size to the array in argument 2, which has room for as many as the number
// in argument 1 says, and their number there.
func (c *call) list(structs []byte, size int) error {
	room, err := c.read32(1)
	if err != nil {
		return err
	}
	n := uint32(len(structs) / size)
	if room < n {
		return errors.Join(c.set32(1, n), fail(ErrInsufficientSize, "room for %d of %d processes", room, n))
	}
	if n > 0 {
		if c.args[2] == 0 {
			return fail(ErrInvalidArgument, "room for %d, and a null pointer", room)
		}
		if err := c.write(2, structs); err != nil {
			return err
		}
	}
	return c.set32(1, n)
}

// Sizes of nvmlProcessInfo_t in its two layouts, without and with instances, and of the structs of
// the other calls about processes.
const (
	processInfoBytes   = 16
	processInfoV2Bytes = 24
	processDetailBytes = 32
	processSampleBytes = 32
)

func processInfo(b []byte, pid uint32, memory uint64) []byte { return put64(put32(b, pid, 0), memory) }

func processInfoV2(b []byte, pid uint32, memory uint64) []byte {
	return put32(processInfo(b, pid, memory), noInstance, noInstance)
}

// noProcesses is the answer about kinds of processes that PVDRM has none of.
func noProcesses(c *call) error { return c.list(nil, processInfoBytes) }

// processDetails is nvmlDeviceGetRunningProcessDetailList: a struct with the version, the kind of
// processes, the room and the address of the array.
func processDetails(c *call) error {
	const structBytes, compute, kinds = 24, 0, 3
	if err := c.version(1, structBytes, 1); err != nil {
		return err
	}
	head, err := c.read(1, structBytes)
	if err != nil {
		return err
	}
	kind, at := le32(head[4:]), c.args[1]
	if kind >= kinds {
		return fail(ErrInvalidArgument, "there is no kind %d of processes", kind)
	}
	var list []byte
	if kind == compute {
		u, err := c.file.Usage()
		if err != nil {
			return err
		}
		for _, p := range byProcess(u.Clients) {
			list = put64(processInfoV2(list, p.Process, p.VRAM), 0) // no protected memory
		}
	}
	inner := *c
	inner.args = &[MaxArgs]uint64{1: at + 8, 2: le64(head[16:])}
	return inner.list(list, processDetailBytes)
}

// processUtilization is nvmlDeviceGetProcessUtilization: a sample for each process, if the last
// period ended after the time in argument 3.
func processUtilization(c *call) error {
	r, err := c.lib.rates(c.device)
	if err != nil {
		return err
	}
	if !r.timed {
		return fail(ErrNotSupported, "the device does not measure processes")
	}
	if room, err := c.read32(2); err != nil || room == 0 {
		return errors.Join(c.set32(2, max(1, uint32(len(r.processes)))), err, ErrInsufficientSize)
	}
	at := uint64(r.at.UnixMicro())
	if at <= c.args[3] || len(r.processes) == 0 {
		return errors.Join(c.set32(2, 0), fail(ErrNotFound, "no sample since %d", c.args[3]))
	}
	var list []byte
	for _, p := range r.processes {
		list = put32(put64(put32(list, p.pid, 0), at), p.compute, p.copies, 0, 0)
	}
	inner := *c
	inner.args = &[MaxArgs]uint64{1: c.args[2], 2: c.args[1]}
	return inner.list(list, processSampleBytes)
}

// systemGetProcessName writes the command of a process, cut to the room.
func systemGetProcessName(c *call) error {
	const most = 4096
	room := int(min(c.u32(2), most))
	if room == 0 {
		return fail(ErrInvalidArgument, "no room")
	}
	name, err := c.lib.processName(c.u32(0), most)
	if err != nil {
		return err
	}
	return c.write(1, append(name[:min(len(name), room-1)], 0))
}

func (l *Library) processName(pid uint32, most int64) ([]byte, error) {
	for _, file := range []string{"cmdline", "comm"} { // the first is empty for threads of the kernel
		f, err := os.Open(filepath.Join(l.cfg.Proc, fmt.Sprint(pid), file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fail(ErrNotFound, "there is no process %d", pid)
		}
		if err != nil {
			return nil, fail(ErrNoPermission, "process %d: %w", pid, err)
		}
		b, err := io.ReadAll(io.LimitReader(f, most))
		_ = f.Close() // it was only read
		if errors.Is(err, syscall.ESRCH) {
			return nil, fail(ErrNotFound, "process %d has ended", pid)
		}
		if err != nil {
			return nil, fail(ErrUnknown, "process %d: %w", pid, err)
		}
		if name, _, _ := bytes.Cut(bytes.TrimRight(b, "\n"), []byte{0}); len(name) > 0 {
			return name, nil
		}
	}
	return nil, fail(ErrNotFound, "process %d has no name", pid)
}

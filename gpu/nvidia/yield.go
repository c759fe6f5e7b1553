package nvidia

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"pvdrm/internal/usernotify"
)

// handover gives a keeper what it needs to answer a worker. The first one comes with descriptors of
// the listener and of the worker's memory, the second one, when the worker has started, with those
// of its devices, which have these numbers in the worker.
type handover struct {
	Devices []int32
	Runs    bool // it is to use the GPU
}

// maxDevices is how many descriptors of the device a worker may have.
const maxDevices = 64

// controlDevice is where controls go.
var controlDevice = "/dev/nvidiactl"

func isControlDevice(path string) bool { return path == controlDevice }

// yieldRequests traps what this process asks of NVIDIA's resource manager from now on, and has the
// keeper at the other end of a link answer, and other calls.
func yieldRequests(keeper *link, requests []usernotify.Requests, calls ...uint32) error {
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = mem.Close() }() // the keeper has it
	listener, err := usernotify.Install(usernotify.Calls(requests, calls...), true)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // likewise
	return keeper.send(&handover{}, []int{int(listener), int(mem.Fd())})
}

// seal hands the devices of this process over that are to be, which has started, and gives up what it needs no more.
func seal(keeper *link, runs bool, are func(path string) bool) error {
	h := handover{Runs: runs}
	var fds []int
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return err
	}
	for _, path := range files {
		if target, err := os.Readlink(path); err != nil || !are(target) {
			continue // another one, or that by which the directory was read
		}
		fd, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			return err
		}
		h.Devices, fds = append(h.Devices, int32(fd)), append(fds, fd)
	}
	if err := keeper.send(&h, fds); err != nil {
		return err
	}
	// The keeper answers it; there is no device to do so.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, ^uintptr(0), requestSeal, 0)
	if errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}

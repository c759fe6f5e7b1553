package nvidia_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
	"pvdrm/gpu/nvidia"
)

// glDeviceEnv names the file that stands for NVIDIA's devices.
const glDeviceEnv = "PVDRM_TEST_GL_DEVICE"

// Clients of the resource manager: the worker's, and another's.
const (
	ownClient   = 7
	otherClient = 8
)

// A worker hands its requests over, starts with all rights, and has few after its seal: its keeper opens its devices
// and makes the controls of the table, with a copy of the descriptor by which they come.
func TestGLWorkerIsSealed(t *testing.T) {
	device := filepath.Join(t.TempDir(), "nvidia0")
	require.NoError(t, os.WriteFile(device, nil, 0o600))
	made := make(chan uint32, 10)
	t.Cleanup(nvidia.FakeGL(device, func(fd int, argument []byte) unix.Errno {
		path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil || path != device {
			return unix.EBADF
		}
		made <- binary.LittleEndian.Uint32(argument[8:])
		return 0
	}))
	e, err := nvidia.NewGLKeeper(0).Equip()
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- e.Guard() }()
	command := workerCommand(glWorker)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = append(os.Environ(), glDeviceEnv+"="+device), e.Worker, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, e.Worker[0].Close())
	require.NoError(t, <-ended)
	require.Equal(t, `starting: opened, a control: inappropriate ioctl for device
another file: permission denied
to read: operation not permitted
a control: ok
of another client: operation not permitted
not in the table: operation not permitted
opened again: ok
a control there: ok
an unknown request: operation not permitted
`, string(out))
	require.Len(t, made, 2)
}

// attemptsOfGL is the program of that worker.
func attemptsOfGL() error {
	device := os.Getenv(glDeviceEnv)
	defer nvidia.FakeGL(device, nil)()
	y, err := nvidia.YieldGL(3)
	if err != nil {
		return err
	}
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	fmt.Println("starting: opened, a control:", control(fd, ownClient, 0x20802a02))
	requests, err := y.Seal()
	if err != nil {
		return err
	}
	var ioctls []sandbox.Ioctl
	for _, r := range requests {
		ioctls = append(ioctls, sandbox.Ioctl(r))
	}
	if err := sandbox.EnterNVIDIARenderer(ioctls); err != nil {
		return err
	}
	_, err = unix.Open("/etc/passwd", unix.O_RDWR, 0)
	fmt.Println("another file:", err)
	_, err = unix.Open(device, unix.O_RDONLY, 0)
	fmt.Println("to read:", err)
	fmt.Println("a control:", control(fd, ownClient, 0x20802a02))
	fmt.Println("of another client:", control(fd, otherClient, 0x20802a02))
	fmt.Println("not in the table:", control(fd, ownClient, 0x2080110b))
	again, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	fmt.Println("opened again:", said(err))
	fmt.Println("a control there:", control(again, ownClient, 0x20802a02))
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), 0xc0384627, 0)
	fmt.Println("an unknown request:", errno)
	return nil
}

func said(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// control makes an NV_ESC_RM_CONTROL with eight bytes of parameters.
func control(fd int, client, command uint32) string {
	params := new([8]byte)
	argument := new([32]byte)
	binary.LittleEndian.PutUint32(argument[0:], client)
	binary.LittleEndian.PutUint32(argument[8:], command)
	binary.LittleEndian.PutUint64(argument[16:], uint64(uintptr(unsafe.Pointer(params))))
	binary.LittleEndian.PutUint32(argument[24:], uint32(len(params)))
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), 0xc020462a, uintptr(unsafe.Pointer(argument))); errno != 0 {
		return errno.Error()
	}
	return "ok"
}

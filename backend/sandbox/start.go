package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaces that a backend gets of its own. Its sockets are in the file system
// and its memory is shared by descriptors, neither of which these touch.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Start starts a command in namespaces of its own: mounts, network, IPC and host
// name, and process ids where pids says so; where this process may not make those
// otherwise, a user namespace too, in which the command is root and has no right
// outside. If the host allows none, it starts the command as it is, and shared says why.
//
// Each attempt makes the command anew, told whether it gets namespaces. The caller
// keeps to one thread if the command is to end with it (Pdeathsig).
func Start(command func(own bool) *exec.Cmd, pids bool) (cmd *exec.Cmd, shared, err error) {
	flags := uintptr(namespaces)
	if pids {
		flags |= unix.CLONE_NEWPID
	}
	attempts := []uintptr{flags | unix.CLONE_NEWUSER}
	if os.Geteuid() == 0 {
		attempts = []uintptr{flags, flags | unix.CLONE_NEWUSER}
	}
	var refused []error
	for _, flags := range attempts {
		cmd = command(true)
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Cloneflags |= flags
		if flags&unix.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		}
		if err = cmd.Start(); err == nil {
			return cmd, nil, nil
		}
		refused = append(refused, err)
	}
	cmd = command(false)
	if err = cmd.Start(); err != nil {
		return nil, nil, err
	}
	return cmd, fmt.Errorf("this host allows no namespaces: %w", errors.Join(refused...)), nil
}

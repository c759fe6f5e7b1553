package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaces that a backend gets of its own. It is given its sockets and memory as
// descriptors, which these do not touch.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// What Start may report as refused, with the reason.
var (
	// ErrNamespaces reports that the command runs in the namespaces of its parent.
	ErrNamespaces = errors.New("this host allows no namespaces")
	// ErrIdentity reports that the command keeps the user id of its parent.
	ErrIdentity = errors.New("no user id of its own")
)

// Options say what Start gives a command.
type Options struct {
	PIDs     bool      // process ids of its own
	Identity *Identity // which it takes on in Shed; nil to keep the caller's
}

// attempt is one way to start a command.
type attempt struct {
	flags   uintptr // namespaces
	inside  uint32  // id that it takes on, in its user namespace; 0 for none
	mapping mapping // how its user namespace gets its ids
}

type mapping int

const (
	mapNone   mapping = iota // no user namespace
	mapSelf                  // the caller's id only, as 0
	mapDirect                // the identity too, by a caller who may write any map
	mapTools                 // the identity too, by newuidmap and newgidmap
)

// attempts lists the ways to start a command, the best first. The last needs nothing
// of the host.
func (o Options) attempts(root bool) []attempt {
	flags := uintptr(namespaces)
	if o.PIDs {
		flags |= unix.CLONE_NEWPID
	}
	user := flags | unix.CLONE_NEWUSER
	switch {
	case root && o.Identity != nil:
		return []attempt{
			{flags: flags, inside: o.Identity.UID},
			{flags: user, inside: mappedID, mapping: mapDirect},
			{inside: o.Identity.UID},
		}
	case root:
		return []attempt{{flags: flags}, {flags: user, mapping: mapSelf}, {}}
	case o.Identity != nil:
		return []attempt{{flags: user, inside: mappedID, mapping: mapTools}, {flags: user, mapping: mapSelf}, {}}
	}
	return []attempt{{flags: user, mapping: mapSelf}, {}}
}

// mappedID is what an identity is called in a user namespace of Start's, as user and
// as group. The caller is 0 there.
const mappedID = 1

// Start starts a command in namespaces of its own: mounts, network, IPC and host
// name, and process ids where o asks for them; where this process may not make those
// otherwise, a user namespace too, in which the command is root and has no right
// outside. The command is to call Root.Enter, if it has namespaces, and Shed, which
// gives it the identity of o. What the host refuses of this, the command goes without,
// and refused says why: it is ErrNamespaces, ErrIdentity, or both, or nil.
//
// Each attempt makes a new command, told whether it gets namespaces. Start adds to
// its environment and its ExtraFiles what Root.Enter and Shed need. The caller
// keeps to one thread if the command is to end with it (Pdeathsig).
func Start(command func(own bool) *exec.Cmd, o Options) (cmd *exec.Cmd, refused, err error) {
	var failed []error
	for _, a := range o.attempts(os.Geteuid() == 0) {
		cmd = command(a.flags != 0)
		if err = a.start(cmd, o.Identity); err != nil {
			failed = append(failed, err)
			continue
		}
		if len(failed) == 0 {
			return cmd, nil, nil
		}
		reason := errors.Join(failed...)
		if a.flags == 0 {
			refused = fmt.Errorf("%w: %w", ErrNamespaces, reason)
		}
		if a.inside == 0 && o.Identity != nil {
			refused = errors.Join(refused, fmt.Errorf("%w: %w", ErrIdentity, reason))
		}
		return cmd, refused, nil
	}
	return nil, nil, err
}

// start starts a command in one way.
func (a attempt) start(cmd *exec.Cmd, identity *Identity) (err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	attr := cmd.SysProcAttr
	attr.Cloneflags |= a.flags
	switch a.mapping {
	case mapSelf:
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	case mapDirect:
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}, {ContainerID: mappedID, HostID: int(identity.UID), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}, {ContainerID: mappedID, HostID: int(identity.GID), Size: 1}}
		attr.GidMappingsEnableSetgroups = true
	case mapTools:
		// Until newuidmap has run no id of the command is mapped, and only ambient capabilities
		// outlast its exec.
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil { // EINVAL: a kernel without it
				attr.AmbientCaps = append(attr.AmbientCaps, c)
			}
		}
	}
	parent, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	self := os.NewFile(uintptr(parent), "pidfd")
	defer func() { _ = self.Close() }() // the command has it
	mapped, mappedEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = mapped.Close() }()    // likewise
	defer func() { _ = mappedEnd.Close() }() // says that nothing more comes
	g := given{id: a.inside, parent: 3 + len(cmd.ExtraFiles), mapped: 4 + len(cmd.ExtraFiles)}
	cmd.ExtraFiles = append(cmd.ExtraFiles, self, mapped)
	cmd.Env = append(cmd.Environ(), g.encode())
	if err := cmd.Start(); err != nil {
		return err
	}
	if a.mapping == mapTools {
		err = identity.mapInto(cmd.Process.Pid)
	}
	if err == nil {
		_, err = mappedEnd.Write([]byte{1})
	}
	if err != nil {
		_ = cmd.Process.Kill() // it waits
		_ = cmd.Wait()         // so this is no news
	}
	return err
}

// mapInto has the tools give a process's user namespace its ids.
func (i *Identity) mapInto(pid int) error {
	for _, m := range []struct {
		tool        string
		caller, sub uint32
	}{
		{tool: "newuidmap", caller: uint32(os.Geteuid()), sub: i.UID},
		{tool: "newgidmap", caller: uint32(os.Getegid()), sub: i.GID},
	} {
		out, err := exec.Command(m.tool, fmt.Sprint(pid), "0", fmt.Sprint(m.caller), "1", fmt.Sprint(mappedID), fmt.Sprint(m.sub), "1").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", m.tool, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

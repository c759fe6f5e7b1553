package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// given is what Start tells the process that it starts, in the environment.
type given struct {
	id     uint32 // user and group that it is to become, in its user namespace; 0 for none
	parent int    // descriptor, a pidfd of the process that called Start
	mapped int    // descriptor of a pipe with a byte when the ids are mapped
}

// givenVar is the environment variable that has it.
const givenVar = "PVDRM_GIVEN"

func (g given) encode() string { return fmt.Sprintf("%s=%d:%d:%d", givenVar, g.id, g.parent, g.mapped) }

// begin returns what Start gave this process, when its ids are mapped. It forgets the
// variable: the programs that this one starts are not Start's.
var begin = sync.OnceValues(func() (given, error) {
	g := given{parent: -1, mapped: -1}
	text, ok := os.LookupEnv(givenVar)
	if !ok {
		return g, nil // somebody else started it
	}
	if _, err := fmt.Sscanf(text, "%d:%d:%d", &g.id, &g.parent, &g.mapped); err != nil {
		return g, fmt.Errorf("%s: %w", givenVar, err)
	}
	if err := os.Unsetenv(givenVar); err != nil {
		return g, err
	}
	unix.CloseOnExec(g.parent)
	f := os.NewFile(uintptr(g.mapped), "mapped")
	if f == nil {
		return g, fmt.Errorf("%s: %d is no descriptor", givenVar, g.mapped)
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := f.Read(make([]byte, 1)); err != nil {
		return g, fmt.Errorf("waiting for user ids: %w", err)
	}
	return g, nil
})

// Assigned returns the user and group id that Start has chosen for this process, as
// they are called in its user namespace: they go to Shed. They are 0 where it is to
// keep those that it has.
func Assigned() (uid, gid uint32, err error) {
	g, err := begin()
	return g.id, g.id, err
}

// errOrphan reports that no process is left that would end this one.
var errOrphan = errors.New("the process that started this one has ended")

// check returns errOrphan if the process that called Start has ended.
func (g given) check() error {
	if g.parent < 0 {
		return nil
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(g.parent), Events: unix.POLLIN}}, 0)
	if err != nil {
		return os.NewSyscallError("poll", err)
	}
	if n != 0 {
		return errOrphan
	}
	return nil
}

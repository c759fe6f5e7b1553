package interpose

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// NodePath is where programs look for a DRM render node.
const NodePath = "/dev/dri/renderD128"

// Node is what programs open: the render node of the virtio-gpu driver, or,
// where there is no such node, something in its place. It lives as long as the
// process.
type Node struct {
	keeper int   // a description of our own, which waits for the locks of others
	locks  int64 // first byte of those that we lock; another supervisor has others
	stat   unix.Stat_t
	path   string // where it can be opened
	opens  bool   // programs cannot open it themselves
}

// RenderNode is the node at path in /dev/dri.
func RenderNode(path string) (*Node, error) {
	keeper, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return newNode(keeper, path, false)
}

// StandIn is a node where there is none: programs that open NodePath get a
// description of a pipe that nobody writes to. A pipe can be polled, opened more
// than once and locked, as the table of open files needs it.
func StandIn() (*Node, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("a node for the programs: %w", err)
	}
	_ = unix.Close(p[0]) // the pipe stays
	path := fmt.Sprintf("/proc/self/fd/%d", p[1])
	keeper, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	_ = unix.Close(p[1])
	if err != nil {
		return nil, fmt.Errorf("a node for the programs (is /proc mounted?): %w", err)
	}
	return newNode(keeper, fmt.Sprintf("/proc/self/fd/%d", keeper), true)
}

func newNode(keeper int, path string, opens bool) (*Node, error) {
	n := &Node{keeper: keeper, locks: int64(self) * maxFiles, path: path, opens: opens}
	if err := unix.Fstat(keeper, &n.stat); err != nil {
		return nil, errors.Join(fmt.Errorf("looking at %s: %w", path, err), unix.Close(keeper))
	}
	return n, nil
}

// is reports whether fd is open on the node: on the same device if it is one,
// else on the same inode.
func (n *Node) is(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != n.stat.Mode&unix.S_IFMT {
		return false
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return st.Rdev == n.stat.Rdev
	}
	return st.Dev == n.stat.Dev && st.Ino == n.stat.Ino
}

// openNew makes a new description of the node.
func (n *Node) openNew(flags int) (int, error) {
	return unix.Open(n.path, unix.O_RDWR|unix.O_CLOEXEC|flags&unix.O_NONBLOCK, 0)
}

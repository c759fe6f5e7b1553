package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The range of user and group ids from which root takes those of backends. No account
// database assigns ids there, and systemd uses none of them (systemd.io/UIDS-GIDS).
const (
	FirstID = 0x7e000000 // 2113929216
	CountID = 1 << 16
)

// Identity is a user and group id that only the processes of one guest have, so that
// the kernel keeps them from the processes and files of everybody else. It belongs to
// the process that reserved it, until Release or the end of that process.
type Identity struct {
	UID, GID uint32 // as the host sees them
	lock     *os.File
}

// ReserveIdentity reserves an identity that no other guest of this host has. Root gets
// one of CountID ids from FirstID on. Other users get one of the subordinate ids that
// the administrator gave them in /etc/subuid and /etc/subgid, if newuidmap is
// installed. The error tells what is missing.
func ReserveIdentity() (*Identity, error) {
	i, err := reserve()
	if err != nil {
		return nil, fmt.Errorf("a user id of its own: %w", err)
	}
	return i, nil
}

func reserve() (*Identity, error) {
	if os.Geteuid() != 0 {
		return reserveSubordinate()
	}
	if err := mayChangeUsers(); err != nil {
		return nil, err
	}
	dir := "/run/pvdrm"
	if err := privateDir(dir); err != nil {
		dir = "/tmp/pvdrm-ids-0" // /run may be read-only in a container
		if other := privateDir(dir); other != nil {
			return nil, errors.Join(err, other)
		}
	}
	n, lock, err := lockOne(filepath.Join(dir, "ids"), CountID)
	if err != nil {
		return nil, err
	}
	return &Identity{UID: FirstID + n, GID: FirstID + n, lock: lock}, nil
}

// mayChangeUsers explains why this process, which is root, cannot start processes of
// other users, or signal them later.
func mayChangeUsers() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for _, c := range []struct {
		number int
		name   string
	}{{unix.CAP_SETUID, "CAP_SETUID"}, {unix.CAP_SETGID, "CAP_SETGID"}, {unix.CAP_KILL, "CAP_KILL"}} {
		if caps[0].Effective&(1<<c.number) == 0 {
			return fmt.Errorf("this root has no %s; give it to the container that pvdrm runs in", c.name)
		}
	}
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		maps, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !mapsAll(string(maps), FirstID, CountID) {
			return fmt.Errorf("this user namespace lacks the ids %d to %d (%s); map them, or run pvdrm outside of it", FirstID, FirstID+CountID-1, file)
		}
	}
	return nil
}

// mapsAll reports whether one line of a file such as /proc/self/uid_map has all of
// count ids from first on.
func mapsAll(maps string, first, count uint64) bool {
	for line := range strings.Lines(maps) {
		var inside, outside, n uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &n); err == nil && inside <= first && first+count <= inside+n {
			return true
		}
	}
	return false
}

// subordinates bounds how many subordinate ids are used. They are the last of those
// that a user has: containers without root use the first.
const subordinates = 4096

func reserveSubordinate() (*Identity, error) {
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is missing; install it (package uidmap on Debian, shadow-utils on Fedora)", tool)
		}
	}
	uid := strconv.Itoa(os.Geteuid())
	name := uid
	if u, err := user.LookupId(uid); err == nil {
		name = u.Username
	}
	uids, err := subordinate("/etc/subuid", uid, name)
	if err != nil {
		return nil, err
	}
	gids, err := subordinate("/etc/subgid", uid, name)
	if err != nil {
		return nil, err
	}
	dir := "/run/user/" + uid // of systemd; the same for all of the user's processes
	if err := privateDir(dir); err != nil {
		dir = "/tmp/pvdrm-ids-" + uid
		if err := privateDir(dir); err != nil {
			return nil, err
		}
	}
	count := min(uids.count, gids.count, subordinates)
	n, lock, err := lockOne(filepath.Join(dir, "pvdrm-ids"), count)
	if err != nil {
		return nil, err
	}
	return &Identity{UID: uids.first + uids.count - 1 - n, GID: gids.first + gids.count - 1 - n, lock: lock}, nil
}

// span is a range of ids.
type span struct{ first, count uint32 }

// subordinate returns the largest range of ids that a file in the format of subuid(5)
// gives a user, who may be named or numbered there.
func subordinate(path, uid, name string) (best span, err error) {
	f, err := os.Open(path)
	if err != nil {
		return span{}, fmt.Errorf("there are no subordinate ids: %w; see subuid(5)", err)
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		owner, ids, _ := strings.Cut(lines.Text(), ":")
		first, count, _ := strings.Cut(ids, ":")
		if owner != uid && owner != name {
			continue
		}
		from, err1 := strconv.ParseUint(first, 10, 32)
		n, err2 := strconv.ParseUint(strings.TrimSpace(count), 10, 32)
		if err1 == nil && err2 == nil && from+n <= 1<<32-1 && uint32(n) > best.count {
			best = span{first: uint32(from), count: uint32(n)}
		}
	}
	if err := lines.Err(); err != nil {
		return span{}, fmt.Errorf("%s: %w", path, err)
	}
	if best.count == 0 {
		return span{}, fmt.Errorf("%s gives user %s no ids; `usermod --add-subuids FIRST-LAST --add-subgids FIRST-LAST %s` does, with ids that no user has", path, name, name)
	}
	return best, nil
}

// privateDir makes a directory that only this user can write to, or checks that it is
// one.
func privateDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s is no directory that only user %d can write to; remove it", path, os.Geteuid())
	}
	return nil
}

// lockOne locks one of count numbers that no other process has locked in the file at path.
// A number is locked by a lock on the byte at that offset, which belongs to the open
// file: it ends when that is closed, however its process ends, so no lock gets stale.
// The search begins anywhere: containers that have a file each rarely choose the same.
func lockOne(path string, count uint32) (uint32, *os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return 0, nil, err
	}
	start := rand.Uint32N(count)
	for i := range count {
		n := (start + i) % count
		lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: int64(n), Len: 1}
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
		if err == nil {
			return n, f, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return 0, nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
	}
	return 0, nil, errors.Join(fmt.Errorf("all %d ids are in use (%s)", count, path), f.Close())
}

// Release gives the identity back. No process may have it any more.
func (i *Identity) Release() error { return i.lock.Close() }

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// identify is the first stage of a process with an identity: it sheds what it has.
func identify() int {
	runtime.LockOSThread()
	if os.Getenv(inside+"_OWN") != "" {
		if err := (Root{}).Enter(); err != nil {
			fmt.Println("root:", err) // containers refuse it
		}
	}
	uid, gid, err := Assigned()
	if err == nil {
		err = os.Setenv(inside, "identified")
	}
	if err == nil {
		err = Shed(Shedding{Args: os.Args, UID: uid, GID: gid, Limits: Limits{Processes: 50}})
	}
	fmt.Println("shed:", err)
	return 1
}

// identified is the second stage: it tells who it is.
func identified() int {
	groups, err := unix.Getgroups()
	fmt.Println("ids", unix.Getuid(), unix.Geteuid(), unix.Getgid(), unix.Getegid(), groups, err)
	signal, err := parentDeathSignal()
	fmt.Println("ends with its parent", syscall.Signal(signal), err)
	status, err := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") {
			fmt.Println(strings.Join(strings.Fields(line), " "))
		}
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0)
	fmt.Println("back", errno, err)
	var r syscall.Rlimit
	err = syscall.Getrlimit(unix.RLIMIT_NPROC, &r)
	fmt.Println("processes", r.Cur, r.Max, err)
	c := exec.Command(Program())
	c.Env = []string{inside + "=hello"}
	out, err := c.CombinedOutput()
	fmt.Println(string(out), err)
	fmt.Println("there")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test has seen it
	return 0
}

// identityCommand returns the command of such a process, and what it prints.
func identityCommand(t *testing.T, program string) (command func(own bool) *exec.Cmd, out *os.File, lines *bufio.Scanner) {
	out, w, err := os.Pipe()
	require.NoError(t, err)
	in, hold, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _, _, _ = out.Close(), w.Close(), in.Close(), hold.Close() })
	// A deadline only for a process that should end and does not.
	require.NoError(t, out.SetReadDeadline(time.Now().Add(time.Minute)))
	return func(own bool) *exec.Cmd {
		c := exec.Command(program)
		c.Env = append(os.Environ(), inside+"=identify")
		if own {
			c.Env = append(c.Env, inside+"_OWN=1")
		}
		c.Stdin, c.Stdout, c.Stderr = in, w, w
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return c
	}, out, bufio.NewScanner(out)
}

// reserved is an identity for a test. CI runs as root, which can have one; other users may not.
func reserved(t *testing.T) *Identity {
	t.Helper()
	identity, err := ReserveIdentity()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("this user can have no other ids: ", err)
	}
	require.NoError(t, err)
	return identity
}

// A process takes on the identity that was reserved for it, however it is started, and
// cannot go back.
func TestIdentity(t *testing.T) {
	identity := reserved(t)
	defer func() { require.NoError(t, identity.Release()) }()
	program := privateCopy(t)
	for _, a := range (Options{PIDs: true, Identity: identity}).attempts(os.Geteuid() == 0) {
		if a.inside == 0 {
			continue
		}
		t.Run(fmt.Sprintf("flags %#x", a.flags), func(t *testing.T) {
			runtime.LockOSThread() // the process ends with it
			defer runtime.UnlockOSThread()
			command, _, lines := identityCommand(t, program)
			cmd := command(a.flags != 0)
			if err := a.start(cmd, identity); a.flags != 0 && err != nil && os.Getenv("CI") == "" {
				t.Skip("this host allows no namespaces: ", err)
			} else {
				require.NoError(t, err)
			}
			defer func() {
				_ = cmd.Process.Kill() // it waits for that
				_ = cmd.Wait()         // so this is no news
			}()
			var said []string
			for lines.Scan() && lines.Text() != "there" {
				said = append(said, lines.Text())
			}
			require.NoError(t, lines.Err(), said)
			none := "0000000000000000"
			for _, want := range []string{
				fmt.Sprintf("ids %d %d %d %d [] <nil>", a.inside, a.inside, a.inside, a.inside),
				"ends with its parent killed <nil>",
				"CapInh: " + none, "CapPrm: " + none, "CapEff: " + none, "CapBnd: " + none, "CapAmb: " + none, "NoNewPrivs: 1",
				"back operation not permitted <nil>", "processes 50 50 <nil>", "hello <nil>",
			} {
				require.Contains(t, said, want, strings.Join(said, "\n"))
			}
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
			require.NoError(t, err)
			id := fmt.Sprint(identity.UID)
			require.Contains(t, string(status), "Uid:\t"+strings.Join([]string{id, id, id, id}, "\t")+"\n")
		})
	}
}

// privateCopy returns a copy of this program in a directory that no other user can
// enter, as programs in /root or in a home are.
func privateCopy(t *testing.T) string {
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer func() { require.NoError(t, self.Close()) }()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	path := filepath.Join(dir, "program")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(f, self)
	require.NoError(t, errors.Join(err, f.Chmod(0o755), f.Close()))
	return path
}

// A process with an identity ends with the one that started it.
func TestIdentityEndsWithItsParent(t *testing.T) {
	identity := reserved(t)
	require.NoError(t, identity.Release()) // the other process reserves its own
	command, out, lines := identityCommand(t, os.Args[0])
	middle := command(false)
	middle.Env = append(middle.Env, inside+"=middle")
	require.NoError(t, middle.Start())
	defer func() { _ = middle.Wait() }() // killed
	for lines.Scan() && lines.Text() != "there" {
		t.Log(lines.Text())
	}
	require.NoError(t, lines.Err())
	require.NoError(t, middle.Stdout.(io.Closer).Close(), "only they hold it")
	require.NoError(t, middle.Process.Kill())
	_, err := io.Copy(io.Discard, out)
	require.NoError(t, err, "the process outlived its parent")
}

// middle is the process between a test and one with an identity.
func middle() int {
	runtime.LockOSThread()
	identity, err := ReserveIdentity()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	a := Options{Identity: identity}.attempts(os.Geteuid() == 0)
	choice := a[len(a)-1] // none that ends with its namespace
	if choice.inside == 0 {
		choice = a[0]
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), inside+"=identify")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := choice.start(cmd, identity); err != nil {
		fmt.Println(err)
		return 1
	}
	_ = unix.Pause() // until the test kills it
	return 1
}

// A program that another user may not execute is told so.
func TestProgramOfOneUser(t *testing.T) {
	identity := reserved(t)
	defer func() { require.NoError(t, identity.Release()) }()
	program := privateCopy(t)
	require.NoError(t, os.Chmod(program, 0o700))
	runtime.LockOSThread() // the process ends with it
	defer runtime.UnlockOSThread()
	command, _, lines := identityCommand(t, program)
	a := (Options{Identity: identity}).attempts(os.Geteuid() == 0)
	cmd := command(false)
	choice := a[len(a)-1]
	if choice.inside == 0 {
		choice = a[0]
	}
	require.NoError(t, choice.start(cmd, identity))
	require.Error(t, cmd.Wait())
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), "permission denied; let everybody read and execute it (chmod a+rx)")
}

func TestDeviceGroups(t *testing.T) {
	groups, err := DeviceGroups("/dev/nul*", "/dev/none", "/etc/passwd")
	require.NoError(t, err)
	require.Empty(t, groups)
	if os.Geteuid() != 0 {
		require.Empty(t, os.Getenv("CI"), "CI runs as root")
		t.Skip("only root makes devices")
	}
	path := filepath.Join(t.TempDir(), "device")
	if err := unix.Mknod(path, unix.S_IFCHR|0o660, int(unix.Mkdev(1, 3))); err != nil {
		require.Empty(t, os.Getenv("CI"), err)
		t.Skip("this root makes no devices: ", err)
	}
	require.NoError(t, os.Chmod(path, 0o660))
	require.NoError(t, os.Chown(path, 0, 4711))
	groups, err = DeviceGroups(path, filepath.Dir(path)+"/d*")
	require.NoError(t, err)
	require.Equal(t, []uint32{4711}, groups)
	require.NoError(t, os.Chown(path, 0, 0))
	groups, err = DeviceGroups(path)
	require.NoError(t, err)
	require.Empty(t, groups)
}

// Root runs the tests of identities as another user, too, if /etc/subuid has one.
func TestIdentityOfUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the other tests run as an ordinary user already")
	}
	all, err := os.ReadFile("/etc/subuid")
	if err != nil {
		t.Skip("no user has subordinate ids: ", err)
	}
	for line := range strings.Lines(string(all)) {
		name, _, _ := strings.Cut(line, ":")
		u, err := user.Lookup(name)
		if err != nil || u.Uid == "0" {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		require.NoError(t, err)
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		require.NoError(t, err)
		dir, err := os.MkdirTemp("/tmp", "pvdrm-test-") // which that user reaches
		require.NoError(t, err)
		defer func() { require.NoError(t, os.RemoveAll(dir)) }()
		program := filepath.Join(dir, "test")
		require.NoError(t, os.Rename(privateCopy(t), program))
		require.NoError(t, os.Chown(dir, int(uid), int(gid)))
		cmd := exec.Command(program, "-test.v", "-test.run", "^(TestIdentity|TestIdentityEndsWithItsParent|TestReserveIdentity|TestProgramOfOneUser)$")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}}
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
		return
	}
	t.Skip("no user has subordinate ids in /etc/subuid")
}

// No two reservations have the same id, and what was released can be had again.
func TestReserveIdentity(t *testing.T) {
	require.NoError(t, reserved(t).Release())
	const count = 32
	all := make([]*Identity, count)
	var making sync.WaitGroup
	for i := range all {
		making.Go(func() { all[i], _ = ReserveIdentity() })
	}
	making.Wait()
	seen := map[uint32]bool{}
	for _, i := range all {
		require.NotNil(t, i)
		require.False(t, seen[i.UID], "%d twice", i.UID)
		seen[i.UID] = true
	}
	for _, i := range all {
		require.NoError(t, i.Release())
	}
}

// No other process has a number that is locked until its file is closed.
func TestLockOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ids")
	const count = 8
	var files [count]*os.File
	for range count {
		n, f, err := lockOne(path, count)
		require.NoError(t, err)
		require.Nil(t, files[n])
		files[n] = f
	}
	_, _, err := lockOne(path, count)
	require.ErrorContains(t, err, "all 8 ids are in use")
	require.NoError(t, files[3].Close())
	n, f, err := lockOne(path, count)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	files[3] = f
	for _, f := range files {
		require.NoError(t, f.Close())
	}
}

func TestMapsAll(t *testing.T) {
	require.True(t, mapsAll("         0          0 4294967295\n", FirstID, CountID))
	require.False(t, mapsAll("         0     100000      65536\n", FirstID, CountID))
	require.False(t, mapsAll("", FirstID, CountID))
}

func TestSubordinate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	require.NoError(t, os.WriteFile(path, []byte("# none\nother:1:2\nme:100000:10\n1000:200000:65536\nme:x:1\nme:4294967290:100\n"), 0o600))
	s, err := subordinate(path, "1000", "me")
	require.NoError(t, err)
	require.Equal(t, span{first: 200000, count: 65536}, s)
	_, err = subordinate(path, "1001", "nobody")
	require.ErrorContains(t, err, "usermod --add-subuids")
}

func TestPrivateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, privateDir(dir))
	require.NoError(t, privateDir(dir), "it is there")
	require.NoError(t, os.Chmod(dir, 0o777))
	require.Error(t, privateDir(dir))
	link := filepath.Join(t.TempDir(), "l")
	require.NoError(t, os.Symlink(t.TempDir(), link))
	require.Error(t, privateDir(link))
}

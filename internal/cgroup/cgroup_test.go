package cgroup

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fake is a tree of control groups in plain files: what the package writes stays there.
type fake struct {
	*testing.T
	tree
}

// populate makes the files of a group.
func (f *fake) populate(path string) {
	f.Helper()
	for name, text := range map[string]string{
		"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "", "cgroup.procs": "", "cgroup.type": "domain\n",
		"memory.max": "max\n", "memory.swap.max": "max\n", "memory.oom.group": "0\n", "pids.max": "max\n", "cpu.weight": "100\n",
		"cgroup.kill": "", "cgroup.events": "populated 0\n",
	} {
		require.NoError(f, os.WriteFile(filepath.Join(path, name), []byte(text), 0o600))
	}
}

// newFake returns a tree in which this process is alone in a group.
func newFake(t *testing.T) *fake {
	f := &fake{T: t, tree: tree{mount: t.TempDir(), own: "/a/b", pid: os.Getpid()}}
	f.mkdir = func(path string, mode os.FileMode) error {
		err := os.Mkdir(path, mode)
		if err == nil {
			f.populate(path)
		}
		return err
	}
	require.NoError(t, f.mkdir(f.at("/a"), 0o755))
	require.NoError(t, f.mkdir(f.at("/a/b"), 0o755))
	f.write("/a/b/cgroup.procs", "4711\n")
	f.pid = 4711
	return f
}

func (f *fake) at(path string) string { return filepath.Join(f.mount, path) }

func (f *fake) write(path, text string) {
	f.Helper()
	require.NoError(f, os.WriteFile(f.at(path), []byte(text), 0o600))
}

func (f *fake) read(path string) string {
	f.Helper()
	b, err := os.ReadFile(f.at(path))
	require.NoError(f, err)
	return strings.TrimSpace(string(b))
}

var testLimits = Limits{MemoryBytes: 1 << 30, PIDs: 100, CPUWeight: 50}

func TestGroup(t *testing.T) {
	f := newFake(t)
	g, err := f.group("guest/../1", testLimits)
	require.NoError(t, err)
	require.Equal(t, f.at("/a/b/pvdrm-guest____1-4711-0"), g.path)
	require.Equal(t, "4711", f.read("/a/b/supervisor/cgroup.procs"))
	require.Equal(t, "+memory +pids +cpu", f.read("/a/b/cgroup.subtree_control"))
	name := "/a/b/" + filepath.Base(g.path)
	for file, want := range map[string]string{"memory.max": "1073741824", "memory.oom.group": "1", "pids.max": "100", "cpu.weight": "50"} {
		require.Contains(t, f.read(name+"/"+file), want)
	}
	require.Regexp(t, "^0", f.read(name+"/memory.swap.max"))

	var cmd exec.Cmd
	g.AddTo(&cmd)
	require.True(t, cmd.SysProcAttr.UseCgroupFD)
	var st, want unix.Stat_t
	require.NoError(t, unix.Fstat(cmd.SysProcAttr.CgroupFD, &st))
	require.NoError(t, unix.Stat(g.path, &want))
	require.Equal(t, want.Ino, st.Ino)
	require.NoError(t, g.dir.Close())

	// It is in the supervisor's group from now on.
	f.own = "/a/b/supervisor"
	f.write("/a/b/cgroup.procs", "")
	again, err := f.group("guest/../1", Limits{PIDs: 1})
	require.NoError(t, err)
	require.Equal(t, f.at("/a/b/pvdrm-guest____1-4711-1"), again.path)
	require.Equal(t, "max", f.read("/a/b/"+filepath.Base(again.path)+"/memory.max"))
	require.NoError(t, again.dir.Close())
}

func TestNoGroup(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fake)
		want   string
	}{
		"others":      {func(f *fake) { f.write("/a/b/cgroup.procs", "4711\n4712\n4713\n") }, "2 other processes are in"},
		"controllers": {func(f *fake) { f.write("/a/b/cgroup.controllers", "cpu io\n") }, "no controllers memory, pids"},
		"gone":        {func(f *fake) { f.own = "/none" }, "may not divide the group"},
		"systemd":     {func(f *fake) { f.root, f.systemd = true, true }, "systemd has not delegated"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			c.change(f)
			_, err := f.group("guest", testLimits)
			require.ErrorContains(t, err, c.want)
			all, err := filepath.Glob(f.at("/a/b/pvdrm-*"))
			require.NoError(t, err)
			require.Empty(t, all)
			_, err = os.Stat(f.at("/a/b/supervisor"))
			require.ErrorIs(t, err, fs.ErrNotExist, "nothing was moved")
		})
	}
}

// The first group of a host may have processes and divisions.
func TestGroupOfTheHost(t *testing.T) {
	f := newFake(t)
	f.own, f.root, f.systemd = "/", true, true // as in a container that runs systemd
	f.populate(f.mount)
	require.NoError(t, os.Remove(f.at("cgroup.type")))
	f.write("cgroup.procs", "1\n2\n4711\n")
	g, err := f.group("guest", testLimits)
	require.NoError(t, err)
	require.NoError(t, g.dir.Close())
	require.Equal(t, "1\n2\n4711", f.read("cgroup.procs"))
}

func TestOwn(t *testing.T) {
	path, err := own("9:name=systemd:/x\n0::/user.slice/a.scope\n")
	require.NoError(t, err)
	require.Equal(t, "/user.slice/a.scope", path)
	path, err = own("0::/\n")
	require.NoError(t, err)
	require.Equal(t, "/", path)
	_, err = own("0::/../x\n")
	require.ErrorContains(t, err, "outside")
	_, err = own("4:memory:/\n")
	require.ErrorContains(t, err, "version 2")
}

// taking makes this test binary take memory.
const taking = "PVDRM_CGROUP_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(taking) != "" {
		b := make([]byte, 256<<20)
		for i := range b {
			b[i] = 1
		}
		runtime.KeepAlive(b)
		return
	}
	os.Exit(m.Run())
}

// A process that takes more memory than its group may have is killed, and no other.
func TestRealMemory(t *testing.T) {
	for _, c := range []struct {
		most  uint64
		fails bool
	}{{most: 1 << 30}, {most: 64 << 20, fails: true}} {
		g, err := New("memory", Limits{MemoryBytes: c.most})
		if err != nil {
			t.Skip("this host offers none: ", err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), taking+"=1")
		g.AddTo(cmd)
		out, err := cmd.CombinedOutput()
		require.Equal(t, c.fails, err != nil, "%v: %s", err, out)
		require.NoError(t, g.Close())
	}
}

// A process in a group has its limits, and ends with it.
func TestRealGroup(t *testing.T) {
	g, err := New("test", Limits{MemoryBytes: 64 << 20, PIDs: 20})
	if err != nil {
		t.Skip("this host offers none: ", err)
	}
	cmd := exec.Command("sleep", "1000")
	g.AddTo(cmd)
	require.NoError(t, cmd.Start())
	procs, err := words(filepath.Join(g.path, "cgroup.procs"))
	require.NoError(t, err)
	require.Len(t, procs, 1)
	most, err := words(filepath.Join(g.path, "pids.max"))
	require.NoError(t, err)
	require.Equal(t, []string{"20"}, most)
	require.NoError(t, g.Close())
	require.Error(t, cmd.Wait(), "it was killed")
	_, err = os.Stat(g.path)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooted is the other process: it enters a root of its own and says what it can do
// there.
func rooted() int {
	r := Root{Visible: []string{os.Getenv(inside + "_VISIBLE"), "/etc/hostname*"},
		ThreadNames: os.Getenv(inside+"_NAMES") != ""}
	if err := r.Enter(); err != nil {
		fmt.Println("refused:", err)
		return 0
	}
	say := func(what string, err error) {
		switch {
		case err == nil:
			fmt.Println(what, "ok")
		case errors.Is(err, syscall.EROFS):
			fmt.Println(what, "read-only")
		case errors.Is(err, fs.ErrNotExist):
			fmt.Println(what, "missing")
		default:
			fmt.Println(what, err)
		}
	}
	write := func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	say("next to it", os.WriteFile(filepath.Join(filepath.Dir(r.Visible[0]), "made"), nil, 0o600))
	say("visible", write(r.Visible[0]))
	_, err := os.ReadFile(r.Visible[0])
	say("visible read", err)
	say("comm", write("/proc/self/comm"))
	say("sysctl", write("/proc/sys/kernel/core_pattern"))
	say("null", write("/dev/null"))
	say("root", os.Mkdir("/made", 0o700))
	_, err = os.Stat("/etc/passwd")
	say("passwd", err)
	_, err = os.Stat("/root")
	say("home", err)
	others, err := filepath.Glob("/proc/[0-9]*")
	say(fmt.Sprint("processes ", len(others)), err)
	return 0
}

// A process with a root of its own sees what it needs and no more.
func TestRoot(t *testing.T) {
	visible := filepath.Join(t.TempDir(), "file")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.WriteFile(visible, []byte("seen"), 0o666))
	require.NoError(t, os.Symlink(visible, link))
	for _, names := range []bool{false, true} {
		var out strings.Builder
		cmd, shared, err := Start(func(own bool) *exec.Cmd {
			c := exec.Command("/proc/self/exe", "-test.run", "^$")
			if own { // else it would change this host's mounts
				c = exec.Command(os.Args[0])
				c.Env = append(os.Environ(), inside+"=root", inside+"_VISIBLE="+link)
				if names {
					c.Env = append(c.Env, inside+"_NAMES=1")
				}
			}
			c.Stdout, c.Stderr = &out, &out
			return c
		}, Options{PIDs: true})
		require.NoError(t, err)
		require.NoError(t, cmd.Wait(), out.String())
		if shared != nil || strings.HasPrefix(out.String(), "refused: a root of its own: ") {
			t.Log("this host allows none:", shared, out.String()) // nor does it get worse
			return
		}
		comm := "read-only"
		if names {
			comm = "ok"
		}
		said := strings.Replace(out.String(), "sysctl open /proc/sys/kernel/core_pattern: permission denied", "sysctl read-only", 1) // not as root
		require.Equal(t, "next to it read-only\nvisible read-only\nvisible read ok\ncomm "+comm+"\nsysctl read-only\nnull ok\nroot read-only\n"+
			"passwd missing\nhome missing\nprocesses 1 ok\n", said)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), visible, "it is to be seen there only")
}

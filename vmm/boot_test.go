package vmm_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	guestimage "pvdrm/guest-image"
	"pvdrm/vmm"
	"pvdrm/vmm/control"
)

// patience is how long a test waits for what has to come. It is no measure of speed: a host that
// is shared may be ten times slower for a while, and a test fails only where nothing comes.
const patience = 15 * time.Minute

// theImage is the real one, from the user's cache or newly built.
var theImage = sync.OnceValues(func() (guestimage.Image, error) {
	return guestimage.Build(context.Background(), guestimage.Config{Progress: func(s string) { fmt.Fprintln(os.Stderr, s) }})
})

// config boots the real image, emulated: that works everywhere.
func config(t *testing.T) vmm.Config {
	image, err := theImage()
	require.NoError(t, err)
	return vmm.Config{Accel: vmm.TCG, Kernel: image.Kernel, Initrd: image.Initrd, BootTimeout: patience}
}

// boot starts a machine and waits until its guest is ready.
func boot(t *testing.T, cfg vmm.Config) *vmm.VM {
	vm, err := vmm.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		vm.Kill()
		<-vm.Done()
	})
	require.NoError(t, vm.WaitReady(t.Context()))
	return vm
}

// sh runs a script in the guest.
func sh(t *testing.T, vm *vmm.VM, script string) (code int, stdout, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	code, err := vm.Run(t.Context(), []string{"sh", "-c", script}, nil, &o, &e)
	require.NoError(t, err)
	return code, o.String(), e.String()
}

// TestBoot boots the image on a machine with a plain virtio GPU, which QEMU has of its own.
func TestBoot(t *testing.T) {
	var console bytes.Buffer
	cfg := config(t)
	cfg.ExtraArgs = []string{"-device", "virtio-gpu-pci"}
	cfg.Console = &console
	vm := boot(t, cfg)

	t.Run("guest", func(t *testing.T) {
		image, err := theImage()
		require.NoError(t, err)
		require.Equal(t, control.Hello{Version: control.Version, Kernel: image.Release, RenderNode: "/dev/dri/renderD128"}, vm.Guest())
		require.LessOrEqual(t, image.Size, int64(25e6), "the image is to take less than 25 MB")
	})
	t.Run("program", func(t *testing.T) {
		code, out, errs := sh(t, vm, "echo to out; echo to err >&2; exit 42")
		require.Equal(t, 42, code)
		require.Equal(t, "to out\n", out)
		require.Equal(t, "to err\n", errs)
	})
	t.Run("not found", func(t *testing.T) {
		code, err := vm.Run(t.Context(), []string{"no-such-program"}, nil, nil, nil)
		require.Equal(t, 127, code)
		require.ErrorContains(t, err, "no-such-program")
	})
	t.Run("input and output", func(t *testing.T) {
		data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // four windows
		var out bytes.Buffer
		code, err := vm.Run(t.Context(), []string{"cat"}, bytes.NewReader(data), &out, nil)
		require.NoError(t, err)
		require.Zero(t, code)
		require.True(t, bytes.Equal(data, out.Bytes()))
	})
	t.Run("put", func(t *testing.T) {
		require.NoError(t, vm.Put(t.Context(), "/opt/new/prog", 0o755, strings.NewReader("#!/bin/sh\necho \"$1\"\n")))
		var out bytes.Buffer
		code, err := vm.Run(t.Context(), []string{"/opt/new/prog", "two words"}, nil, &out, nil)
		require.NoError(t, err)
		require.Zero(t, code)
		require.Equal(t, "two words\n", out.String())
	})
	t.Run("terminal", func(t *testing.T) { scriptOnTerminal(t, vm) })
	t.Run("shell on a terminal", func(t *testing.T) { shellOnTerminal(t, vm) })
	t.Run("a program inherits its streams and nothing else", func(t *testing.T) { inherits(t, vm) })
	t.Run("flood and kill", func(t *testing.T) { floodAndKill(t, vm) })
	t.Run("orphans are collected", func(t *testing.T) {
		_, out, _ := sh(t, vm, "for i in 1 2 3 4 5; do (setsid true &); done; "+untilNone("grep -ls '^State:.Z' /proc/[0-9]*/status"))
		require.Empty(t, strings.TrimSpace(out))
	})
	t.Run("screenshot", func(t *testing.T) { screenshot(t, vm) })
	t.Run("memory is a sealed file", func(t *testing.T) { sealedMemory(t, vm) })
	require.NoError(t, vm.Shutdown(t.Context()))
	require.NoError(t, vm.Wait())
	require.ErrorIs(t, unix.Kill(vm.PID(), 0), unix.ESRCH)
	require.Contains(t, console.String(), "reboot: Power down")
	_, err := vm.Run(t.Context(), []string{"true"}, nil, nil, nil)
	require.EqualError(t, err, "the guest has powered off")
	require.Error(t, vm.Screenshot(t.Context(), "/dev/null"))
}

// scriptOnTerminal runs a script of a pipe on a terminal in the guest.
func scriptOnTerminal(t *testing.T, vm *vmm.VM) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString("tty; exit 6\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	var out bytes.Buffer
	code, err := vm.Shell(t.Context(), nil, r, &out)
	require.NoError(t, err)
	require.Equal(t, 6, code)
	require.Contains(t, out.String(), "/dev/pts/")
}

// inherits looks at what a program in the guest starts with.
func inherits(t *testing.T, vm *vmm.VM) {
	_, out, _ := sh(t, vm, "exec ls /proc/self/fd")
	require.Equal(t, "0\n1\n2\n3\n", out, "3 is the directory itself")
	var signals bytes.Buffer
	_, err := vm.Run(t.Context(), []string{"grep", "SigIgn", "/proc/self/status"}, nil, &signals, nil)
	require.NoError(t, err)
	require.Equal(t, "SigIgn:\t0000000000000000\n", signals.String())
}

// floodAndKill gives up a program that writes more than is read.
func floodAndKill(t *testing.T, vm *vmm.VM) {
	ctx, cancel := context.WithCancel(t.Context())
	audience, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := vm.Run(ctx, []string{"yes"}, nil, w, nil)
		done <- err
	}()
	_, err := io.ReadFull(audience, make([]byte, 100))
	require.NoError(t, err)
	code, out, _ := sh(t, vm, "echo alive")
	require.Zero(t, code)
	require.Equal(t, "alive\n", out)
	cancel()
	audience.Close()
	require.ErrorIs(t, <-done, context.Canceled)
	_, out, _ = sh(t, vm, untilNone("pidof yes"))
	require.Empty(t, strings.TrimSpace(out))
}

// untilNone is a script that waits until a command finds nothing, and prints what it still finds
// after some minutes. What the command prints counts and not its status: grep's is 2 where a process
// ended before it could be read, whatever grep found in the others.
func untilNone(command string) string {
	return "n=0; while found=$(" + command + "); [ -n \"$found\" ] && [ $n -lt 3000 ]; do n=$((n+1)); sleep 0.1; done; echo \"$found\""
}

// screenshot compares two pictures of a screen with text on it.
func screenshot(t *testing.T, vm *vmm.VM) {
	// Without a cursor, which would blink between two pictures.
	code, _, _ := sh(t, vm, `printf '\033[?25lhello\n' > /dev/tty1`)
	require.Zero(t, code)
	path := filepath.Join(t.TempDir(), "screen.png")
	require.EventuallyWithT(t, func(t *assert.CollectT) { // the guest's driver sends what was drawn a little later
		require.NoError(t, vm.Screenshot(context.Background(), path))
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		picture, err := png.Decode(f)
		require.NoError(t, err)
		lit := 0
		for y := range picture.Bounds().Dy() {
			for x := range picture.Bounds().Dx() {
				if r, _, _, _ := picture.At(x, y).RGBA(); r > 0x8000 {
					lit++
				}
			}
		}
		require.Greater(t, lit, 100, "there is text on the screen")
		same, err := vm.Picture(context.Background())
		require.NoError(t, err)
		require.Equal(t, picture.Bounds().Size(), image.Pt(same.Width, same.Height))
		bright := 0
		for i := 0; i < len(same.Pix); i += 3 {
			if same.Pix[i] > 0x80 {
				bright++
			}
		}
		require.Equal(t, lit, bright)
	}, patience, 10*time.Millisecond)
	require.ErrorIs(t, vm.Screenshot(t.Context(), "/no/such/dir/x.png"), os.ErrNotExist)
}

// sealedMemory looks for the guest's memory among QEMU's files.
func sealedMemory(t *testing.T, vm *vmm.VM) {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", vm.PID()))
	require.NoError(t, err)
	found := false
	for _, path := range fds {
		if name, err := os.Readlink(path); err != nil || !strings.HasPrefix(name, "/memfd:memory-backend") {
			continue
		}
		f, err := os.Open(path)
		require.NoError(t, err)
		seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
		require.NoError(t, err)
		require.NotZero(t, seals&unix.F_SEAL_SHRINK)
		require.NoError(t, f.Close())
		found = true
	}
	require.True(t, found)
}

// shellOnTerminal joins a shell in the guest to a terminal here, which a person would sit at.
func shellOnTerminal(t *testing.T, vm *vmm.VM) {
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer person.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer tty.Close()
	resize := func(rows, cols uint16) {
		require.NoError(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}))
	}
	mode := func() unix.Termios {
		m, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		require.NoError(t, err)
		return *m
	}
	var seen bytes.Buffer
	read := func(until string) {
		for !strings.Contains(seen.String(), until) {
			b := make([]byte, 1000)
			n, err := person.Read(b)
			require.NoError(t, err, seen.String())
			seen.Write(b[:n])
		}
		seen.Reset()
	}
	write := func(s string) {
		_, err := person.WriteString(s)
		require.NoError(t, err)
	}
	resize(31, 97)
	before := mode()
	type result struct {
		code int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		code, err := vm.Shell(t.Context(), nil, tty, tty)
		done <- result{code, err}
	}()
	read("# ")
	require.NotEqual(t, before, mode(), "the terminal is raw meanwhile")
	write("stty size\r")
	read("31 97\r\n")
	resize(40, 120)
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGWINCH)) // this process does not have it as its terminal
	write("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo re''sized\r")
	read("resized\r\n")
	// A ^C before this runs would be the line editor's, and one between two commands the shell's,
	// which goes on with the next.
	write("sh -c \"echo go''ing; exec sleep 1000\"\r")
	read("going\r\n")
	write("\x03")
	read("# ")
	write("exit 7\r")
	require.Equal(t, result{7, nil}, <-done)
	require.Equal(t, before, mode())
}

// TestGuestPowersOff has a program end the machine, and TestGuestPanics the guest's kernel.
func TestGuestPowersOff(t *testing.T) {
	vm := boot(t, config(t))
	require.Contains(t, vm.Guest().Note, "no virtio-gpu device")
	_, err := vm.Run(t.Context(), []string{"sh", "-c", "poweroff; sleep 1000"}, nil, nil, nil)
	require.EqualError(t, err, "the guest has powered off")
	require.NoError(t, vm.Wait())
}

func TestGuestPanics(t *testing.T) {
	vm := boot(t, config(t))
	_, err := vm.Run(t.Context(), []string{"sh", "-c", "echo c > /proc/sysrq-trigger"}, nil, nil, nil)
	var lost *vmm.GuestError
	require.ErrorAs(t, err, &lost)
	require.Contains(t, lost.Reason, "the guest's kernel panicked: sysrq triggered crash")
	require.Regexp(t, "Kernel panic - not syncing: sysrq triggered crash$", lost.Console)
	require.ErrorAs(t, vm.Wait(), &lost)
}

func TestQEMUIsKilled(t *testing.T) {
	vm := boot(t, config(t))
	done := make(chan error, 1)
	go func() {
		_, err := vm.Run(t.Context(), []string{"sleep", "1000"}, nil, nil, nil)
		done <- err
	}()
	require.NoError(t, unix.Kill(vm.PID(), unix.SIGKILL))
	var lost *vmm.GuestError
	require.ErrorAs(t, <-done, &lost)
	require.Contains(t, lost.Reason, "signal: killed")
}

func TestGuestThatIsLate(t *testing.T) {
	cfg := config(t)
	cfg.BootTimeout = time.Nanosecond
	vm, err := vmm.Start(t.Context(), cfg)
	require.NoError(t, err)
	err = vm.WaitReady(t.Context())
	require.ErrorContains(t, err, "not ready within 1ns")
	require.ErrorContains(t, err, "longer boot timeout")
	_, err = vm.Run(t.Context(), []string{"true"}, nil, nil, nil)
	require.ErrorContains(t, err, "not ready yet")
	require.NoError(t, vm.Shutdown(t.Context()), "QEMU quits where the guest cannot be asked")
	require.ErrorIs(t, unix.Kill(vm.PID(), 0), unix.ESRCH)
}

func TestKernelWithoutInit(t *testing.T) {
	cfg := config(t)
	cfg.Initrd = ""
	vm, err := vmm.Start(t.Context(), cfg)
	require.NoError(t, err)
	require.ErrorContains(t, vm.WaitReady(t.Context()), "the guest's kernel panicked: VFS: Unable to mount root fs")
}

func TestContextEndsTheMachine(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	vm, err := vmm.Start(ctx, config(t))
	require.NoError(t, err)
	why := errors.New("enough")
	cancel(why)
	<-vm.Done()
	require.ErrorIs(t, unix.Kill(vm.PID(), 0), unix.ESRCH)
	_, err = vmm.Start(ctx, config(t))
	require.ErrorIs(t, err, why)
}

// TestCommandLine repeats a machine by hand, as a person would: init then runs a shell on the console.
func TestCommandLine(t *testing.T) {
	vm, err := vmm.Start(t.Context(), config(t))
	require.NoError(t, err)
	line := vm.CommandLine()
	vm.Kill()
	<-vm.Done()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+line)
	keys, err := cmd.StdinPipe()
	require.NoError(t, err)
	screen, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var seen bytes.Buffer
	r := bufio.NewReader(io.TeeReader(screen, &seen))
	_, err = r.ReadString('#') // the prompt
	require.NoError(t, err, seen.String())
	_, err = io.WriteString(keys, "echo $((6*7))\nexit\n")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, r)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.Contains(t, seen.String(), "\n42\r\n")
	require.Contains(t, seen.String(), "reboot: Power down")
}

// starterEnv makes the test binary start a machine, say so and wait, for TestStarterIsKilled.
const starterEnv = "PVDRM_TEST_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starterEnv) == "" {
		os.Exit(m.Run())
	}
	image, err := theImage()
	if err != nil {
		panic(err)
	}
	vm, err := vmm.Start(context.Background(), vmm.Config{Accel: vmm.TCG, Kernel: image.Kernel, Initrd: image.Initrd})
	if err != nil {
		panic(err)
	}
	if err := vm.WaitReady(context.Background()); err != nil {
		panic(err)
	}
	fmt.Printf("started %d\n", vm.PID())
	<-vm.Done()
}

// TestStarterIsKilled shows that nothing is left of a machine whose starter is gone without a word.
func TestStarterIsKilled(t *testing.T) {
	_, err := theImage()
	require.NoError(t, err)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), starterEnv+"=1", "TMPDIR="+dir, "XDG_RUNTIME_DIR="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "started ")))
	require.NoError(t, err, line)
	qemu, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(qemu)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(qemu), Events: unix.POLLIN}}, -1) // until it has ended
	require.NoError(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

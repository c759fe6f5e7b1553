package tests

import (
	"bufio"
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inputScript finds keyboard and tablet, says so, and prints what they did: the type, the code and both
// halves of the value of each event (Linux, struct input_event). A key that a busy machine holds down
// for long repeats, so the script reads up to where it is let go.
const inputScript = `
for e in /sys/class/input/event*; do
	case $(cat $e/device/name) in
	*Virtio\ Keyboard*) keyboard=/dev/input/${e##*/} ;;
	*Virtio\ Tablet*) tablet=/dev/input/${e##*/} ;;
	esac
done
exec 3<$keyboard 4<$tablet && echo ready || exit
event() { dd bs=24 count=1 2>/dev/null | od -An -v -w24 -tu2; }
until case $e in *" 1 30 0 0") ;; *) false ;; esac; do e=$(echo $(event <&3)) && echo $e; done
event <&3 && od -An -v -w24 -tu2 -N 96 <&4`

// TestViewersOfAVirtualMachine is a VNC viewer that presses a key and a button in a guest.
func TestViewersOfAVirtualMachine(t *testing.T) {
	dir := builtForMesa(t)
	socket := filepath.Join(t.TempDir(), "vnc")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "pvdrm"), "up", "--image", "mesa", "--resolution", "800x600",
		"--display", "vnc=unix:"+socket+",input=on", "--", "sh", "-c", inputScript)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it ends the machine
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var said strings.Builder
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), &said)
	require.Equal(t, "ready", lines.Text(), &said)

	viewer, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer func() { require.NoError(t, viewer.Close()) }()
	require.NoError(t, viewer.SetDeadline(time.Now().Add(patience)))
	say := func(b ...byte) {
		_, err := viewer.Write(b)
		require.NoError(t, err)
	}
	hear := func(n int) []byte {
		b := make([]byte, n)
		_, err := io.ReadFull(viewer, b)
		require.NoError(t, err)
		return b
	}
	say([]byte("RFB 003.008\n\x01\x01")...)
	greeting := hear(12 + 2 + 4 + 4)
	require.Equal(t, []byte{3, 32, 2, 88}, greeting[18:], "800x600")
	say(4, 1, 0, 0, 0, 0, 0, 'A') // what the viewer's keyboard has on the key of a
	say(4, 0, 0, 0, 0, 0, 0, 'A')
	say(5, 1, 3, 31, 2, 87) // the left button, in the lower right corner

	var events []string
	for lines.Scan() {
		events = append(events, regexp.MustCompile(` +`).ReplaceAllString(strings.TrimSpace(lines.Text()), " "))
	}
	require.NoError(t, cmd.Wait(), &said)
	events = slices.DeleteFunc(events, func(e string) bool { return strings.HasSuffix(e, " 1 30 2 0") || strings.HasSuffix(e, " 0 0 1 0") }) // repeats
	for i, want := range []string{
		"1 30 1 0", "0 0 0 0", "1 30 0 0", "0 0 0 0", // KEY_A down, up
		"3 0 32767 0", "3 1 32767 0", "1 272 1 0", "0 0 0 0", // both axes, BTN_LEFT
	} {
		require.Greater(t, len(events), i, &said)
		require.True(t, strings.HasSuffix(events[i], " "+want), "event %d is %s, want %s", i, events[i], want)
	}
	require.Len(t, events, 8)
}

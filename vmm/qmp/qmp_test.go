package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 2, "minor": 0, "major": 10}, "package": ""}, "capabilities": ["oob"]}}` + "\r\n"

// fake is QEMU's side.
type fake struct {
	t     *testing.T
	conn  *net.UnixConn
	lines *bufio.Scanner
}

type request struct {
	Execute   string
	ID        string
	Arguments map[string]any
}

func pair(t *testing.T) (*net.UnixConn, *fake) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		conns[i] = c.(*net.UnixConn)
		t.Cleanup(func() { c.Close() })
	}
	return conns[0], &fake{t, conns[1], bufio.NewScanner(conns[1])}
}

func (f *fake) say(format string, args ...any) {
	_, err := fmt.Fprintf(f.conn, format, args...)
	require.NoError(f.t, err)
}

func (f *fake) hear() request {
	var r request
	require.True(f.t, f.lines.Scan(), "the client hung up")
	require.NoError(f.t, json.Unmarshal(f.lines.Bytes(), &r))
	return r
}

// connect returns a client past negotiation.
func connect(t *testing.T) (*Client, *fake) {
	conn, qemu := pair(t)
	type result struct {
		c   *Client
		err error
	}
	done := make(chan result, 1)
	go func() {
		c, err := New(t.Context(), conn)
		done <- result{c, err}
	}()
	qemu.say(greeting)
	r := qemu.hear()
	require.Equal(t, "qmp_capabilities", r.Execute)
	qemu.say(`{"return": {}, "id": %q}`+"\n", r.ID)
	got := <-done
	require.NoError(t, got.err)
	t.Cleanup(got.c.Close)
	return got.c, qemu
}

func TestExecute(t *testing.T) {
	c, qemu := connect(t)
	go func() {
		r := qemu.hear()
		qemu.say(`{"return": {"status": %q, "running": true}, "id": %q}`+"\r\n", r.Execute, r.ID)
		r = qemu.hear()
		qemu.say(`{"return": {}, "id": %q}`+"\r\n", r.ID)
	}()
	var status struct {
		Status  string
		Running bool
	}
	require.NoError(t, c.Execute(t.Context(), "query-status", nil, &status))
	require.Equal(t, "query-status", status.Status)
	require.True(t, status.Running)
	require.NoError(t, c.Execute(t.Context(), "cont", map[string]string{"a": "b"}, nil))
}

// TestInterleaved has answers come in another order than their commands, with events between them.
func TestInterleaved(t *testing.T) {
	c, qemu := connect(t)
	const n = 20
	got := make(chan error, n)
	for i := range n {
		go func() {
			var echo int
			err := c.Execute(t.Context(), "echo", map[string]int{"value": i}, &echo)
			if err == nil && echo != i {
				err = fmt.Errorf("%d was answered with %d", i, echo)
			}
			got <- err
		}()
	}
	var asked []request
	for range n {
		asked = append(asked, qemu.hear())
	}
	for i := len(asked) - 1; i >= 0; i-- {
		qemu.say(`{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "E%d", "data": {"n": %d}}`+"\n", i, i)
		qemu.say(`{"return": %v, "id": %q}`+"\n\n", asked[i].Arguments["value"], asked[i].ID)
	}
	for range n {
		require.NoError(t, <-got)
	}
	for i := len(asked) - 1; i >= 0; i-- {
		e := <-c.Events()
		require.Equal(t, fmt.Sprintf("E%d", i), e.Name)
		require.JSONEq(t, fmt.Sprintf(`{"n": %d}`, i), string(e.Data))
	}
}

func TestRefusal(t *testing.T) {
	c, qemu := connect(t)
	go func() {
		r := qemu.hear()
		qemu.say(`{"error": {"class": "GenericError", "desc": "no screen"}, "id": %q}`+"\n", r.ID)
	}()
	err := c.Execute(t.Context(), "screendump", nil, nil)
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "GenericError", refused.Class)
	require.EqualError(t, err, "QEMU refused screendump: no screen")
}

func TestResultOfAnotherShape(t *testing.T) {
	c, qemu := connect(t)
	go func() {
		r := qemu.hear()
		qemu.say(`{"return": "text", "id": %q}`+"\n", r.ID)
	}()
	var number int
	require.ErrorContains(t, c.Execute(t.Context(), "x", nil, &number), "QEMU's answer")
}

// TestCancelled has a command given up whose answer then comes all the same.
func TestCancelled(t *testing.T) {
	c, qemu := connect(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	done := make(chan error, 1)
	go func() { done <- c.Execute(ctx, "slow", nil, nil) }()
	r := qemu.hear()
	cancel(why)
	require.ErrorIs(t, <-done, why)
	qemu.say(`{"return": {}, "id": %q}`+"\n", r.ID)
	go func() {
		r := qemu.hear()
		qemu.say(`{"return": {}, "id": %q}`+"\n", r.ID)
	}()
	require.NoError(t, c.Execute(t.Context(), "next", nil, nil))
}

func TestQEMUThatEnds(t *testing.T) {
	c, qemu := connect(t)
	done := make(chan error, 1)
	go func() { done <- c.Execute(t.Context(), "quit", nil, nil) }()
	qemu.hear()
	qemu.say(`{"event": "SHUTDOWN", "data": {"reason": "host-qmp-quit"}}` + "\n")
	qemu.conn.Close()
	require.ErrorContains(t, <-done, "EOF")
	<-c.Done()
	require.Equal(t, "SHUTDOWN", (<-c.Events()).Name, "an event before the end is delivered")
	_, open := <-c.Events()
	require.False(t, open)
	require.ErrorContains(t, c.Execute(t.Context(), "more", nil, nil), "EOF")
}

func TestGarbage(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":      "hello\n",
		"wrong shape":  `{"id": {"a": 1}}` + "\n",
		"endless line": strings.Repeat("x", maxLine+1),
	} {
		t.Run(name, func(t *testing.T) {
			c, qemu := connect(t)
			go func() { _, _ = qemu.conn.Write([]byte(text)) }()
			<-c.Done()
			require.Error(t, c.Err())
			require.Error(t, c.Execute(t.Context(), "x", nil, nil))
		})
	}
}

func TestNoGreeting(t *testing.T) {
	conn, _ := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := New(ctx, conn)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "greeting")

	conn, qemu := pair(t)
	qemu.conn.Close()
	_, err = New(t.Context(), conn)
	require.ErrorContains(t, err, "EOF")
}

// TestUnreadEvents shows that events that nobody reads neither block answers nor pile up.
func TestUnreadEvents(t *testing.T) {
	c, qemu := connect(t)
	go func() {
		r := qemu.hear()
		for i := range 10 * eventBacklog {
			qemu.say(`{"event": "E%d"}`+"\n", i)
		}
		qemu.say(`{"return": {}, "id": %q}`+"\n", r.ID)
	}()
	require.NoError(t, c.Execute(t.Context(), "x", nil, nil))
	require.Len(t, c.Events(), eventBacklog)
	require.Equal(t, fmt.Sprintf("E%d", 9*eventBacklog), (<-c.Events()).Name, "the newest are kept")
}

func TestSendFile(t *testing.T) {
	c, qemu := connect(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	done := make(chan error, 1)
	go func() {
		set, path, err := c.SendFile(t.Context(), int(w.Fd()))
		if err == nil && (set != 5 || path != "/dev/fdset/5") {
			err = fmt.Errorf("set %d, path %s", set, path)
		}
		if err == nil {
			err = c.RemoveFile(t.Context(), set)
		}
		done <- err
	}()
	line, oob := make([]byte, 1000), make([]byte, 100)
	n, oobn, _, _, err := qemu.conn.ReadMsgUnix(line, oob)
	require.NoError(t, err)
	var req request
	require.NoError(t, json.Unmarshal(line[:n], &req))
	require.Equal(t, "add-fd", req.Execute)
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	require.NoError(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	require.Len(t, fds, 1)
	_, err = unix.Write(fds[0], []byte("x"))
	require.NoError(t, err, "it is the pipe")
	require.NoError(t, unix.Close(fds[0]))
	qemu.say(`{"return": {"fdset-id": 5, "fd": 30}, "id": %q}`+"\n", req.ID)
	req = qemu.hear()
	require.Equal(t, "remove-fd", req.Execute)
	require.Equal(t, 5.0, req.Arguments["fdset-id"])
	qemu.say(`{"return": {}, "id": %q}`+"\n", req.ID)
	require.NoError(t, <-done)
}

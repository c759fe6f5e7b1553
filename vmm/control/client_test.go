package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// pair returns a client and the guest's end of its connection, past the hello.
func pair(t *testing.T) (*Client, *Conn, net.Conn) {
	c, g, nc := silentPair(t)
	require.NoError(t, g.Send(Frame{Type: TypeHello, Payload: Hello{Version: Version, Kernel: "6.1", RenderNode: "/dev/dri/renderD128"}.Encode()}))
	<-c.Up()
	require.Equal(t, "6.1", c.Hello().Kernel)
	return c, g, nc
}

func silentPair(t *testing.T) (*Client, *Conn, net.Conn) {
	host, guest := net.Pipe()
	c := NewClient(host)
	t.Cleanup(func() {
		c.Close()
		guest.Close()
	})
	return c, NewConn(guest, Guest), guest
}

// receive returns the next frame of a type, dropping others.
func receive(t *testing.T, g *Conn, typ Type) Frame {
	for {
		f, err := g.Receive()
		require.NoError(t, err)
		if f.Type == typ {
			return f
		}
	}
}

type result struct {
	exit Exit
	err  error
}

// begin runs a program in the background.
func begin(ctx context.Context, c *Client, st Streams) <-chan result {
	done := make(chan result, 1)
	go func() {
		exit, err := c.Run(ctx, Start{Argv: []string{"prog"}}, st)
		done <- result{exit, err}
	}()
	return done
}

func TestClientRunsAProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, _ := pair(t)
		var out, errs bytes.Buffer
		done := begin(t.Context(), c, Streams{Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &errs})
		start := receive(t, g, TypeStart)
		m, err := DecodeStart(start.Payload)
		require.NoError(t, err)
		require.Equal(t, []string{"prog"}, m.Argv)
		require.Equal(t, "input", string(receive(t, g, TypeData).Payload))
		require.Equal(t, Stdin, receive(t, g, TypeClose).Stream)
		for _, f := range []Frame{
			{Type: TypeData, Stream: Stdout, Payload: []byte("to out")},
			{Type: TypeData, Stream: Stderr, Payload: []byte("to err")},
			{Type: TypeWindow, Stream: Stdin, Payload: U32(5)},
			{Type: TypeClose, Stream: Stdout},
			{Type: TypeExit, Payload: Exit{Code: 7}.Encode()},
			{Type: TypeData, Stream: Stdout, Payload: []byte("too late")},
		} {
			f.Call = start.Call
			require.NoError(t, g.Send(f))
		}
		require.Equal(t, result{Exit{Code: 7}, nil}, <-done)
		require.Equal(t, "to out", out.String())
		require.Equal(t, "to err", errs.String())
		require.NoError(t, c.Err(), "what comes late is no violation")
	})
}

// TestHostileGuest has a guest break the protocol in every way that a Conn alone does not notice.
func TestHostileGuest(t *testing.T) {
	flood := make([]Frame, Window/MaxData+1)
	for i := range flood {
		flood[i] = Frame{Type: TypeData, Stream: Stdout, Payload: make([]byte, MaxData)}
	}
	for name, frames := range map[string][]Frame{
		"second hello":         {{Type: TypeHello, Payload: Hello{Version: Version}.Encode()}},
		"data for stdin":       {{Type: TypeData, Stream: Stdin, Payload: []byte{1}}},
		"end of stdin":         {{Type: TypeClose, Stream: Stdin}},
		"credit for stdout":    {{Type: TypeWindow, Stream: Stdout, Payload: U32(1)}},
		"credit from nothing":  {{Type: TypeWindow, Stream: Stdin, Payload: U32(1)}},
		"credit that wraps":    {{Type: TypeWindow, Stream: Stdin, Payload: U32(1<<32 - 1)}},
		"exit cut short":       {{Type: TypeExit, Payload: []byte{1, 2, 3, 4}}},
		"exit with more":       {{Type: TypeExit, Payload: append(Exit{}.Encode(), 0)}},
		"data past its window": flood,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, g, guest := pair(t)
				blocked, release := io.Pipe() // an audience that does not read
				defer blocked.Close()
				done := begin(t.Context(), c, Streams{Stdout: release})
				start := receive(t, g, TypeStart)
				go func() { _, _ = io.Copy(io.Discard, guest) }()
				for _, f := range frames {
					f.Call = start.Call
					if g.Send(f) != nil {
						break // it has hung up on us already
					}
				}
				synctest.Wait()
				blocked.Close()
				r := <-done
				require.ErrorIs(t, r.err, ErrProtocol)
				<-c.Done()
				require.ErrorIs(t, c.Err(), ErrProtocol)
				_, err := c.Run(t.Context(), Start{Argv: []string{"x"}}, Streams{})
				require.ErrorIs(t, err, ErrProtocol, "a broken connection stays broken")
			})
		})
	}
}

func TestHostileGreeting(t *testing.T) {
	for name, tc := range map[string]struct {
		frame Frame
		want  string
	}{
		"another version": {Frame{Type: TypeHello, Payload: Hello{Version: Version + 1}.Encode()}, "build the image again"},
		"no hello":        {Frame{Type: TypeExit, Payload: Exit{}.Encode()}, "before hello"},
		"bad hello":       {Frame{Type: TypeHello, Payload: []byte{1, 0, 0, 0, 255, 0, 0, 0, 65}}, "string longer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, g, _ := silentPair(t)
				require.NoError(t, g.Send(tc.frame))
				<-c.Done()
				require.ErrorContains(t, c.Err(), tc.want)
				select {
				case <-c.Up():
					t.Fatal("counts as up")
				default:
				}
			})
		})
	}
}

func TestGuestThatVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, guest := pair(t)
		done := begin(t.Context(), c, Streams{})
		receive(t, g, TypeStart)
		guest.Close()
		require.ErrorContains(t, (<-done).err, "gone")
		require.Error(t, c.Shutdown())
	})
}

// TestGuestThatHangs has one that takes no orders: whatever is asked of it returns in the end.
func TestGuestThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, _ := pair(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := begin(ctx, c, Streams{})
		receive(t, g, TypeClose) // its input's end is the last that it reads
		why := errors.New("no longer wanted")
		cancel(why)
		require.ErrorIs(t, (<-done).err, why)
		<-c.Done() // the signal that nobody read ends the connection after sendTimeout
		require.ErrorContains(t, c.Err(), "has read nothing")
	})
}

func TestCancelledProgramIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, _ := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := begin(ctx, c, Streams{})
		start := receive(t, g, TypeStart)
		cancel()
		sig := receive(t, g, TypeSignal)
		require.Equal(t, start.Call, sig.Call)
		require.Equal(t, uint32(sigKILL), sig.Value())
		require.NoError(t, g.Send(Frame{Type: TypeExit, Call: start.Call, Payload: Exit{Code: 137, Signal: 9}.Encode()}))
		require.Equal(t, result{Exit{Code: 137, Signal: 9}, context.Canceled}, <-done)
		require.NoError(t, c.Err())
	})
}

// TestFailingStreams has streams of the caller fail: the program is killed, and the reason returned.
func TestFailingStreams(t *testing.T) {
	broken := errors.New("disk full")
	for _, output := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, g, _ := pair(t)
			st := Streams{Stdin: errReader{broken}}
			if output {
				r, w := io.Pipe()
				r.CloseWithError(broken)
				st = Streams{Stdout: w}
			}
			done := begin(t.Context(), c, st)
			start := receive(t, g, TypeStart)
			if output {
				receive(t, g, TypeClose)
				require.NoError(t, g.Send(Frame{Type: TypeData, Stream: Stdout, Call: start.Call, Payload: []byte("x")}))
			}
			receive(t, g, TypeSignal)
			require.NoError(t, g.Send(Frame{Type: TypeExit, Call: start.Call, Payload: Exit{Code: 137}.Encode()}))
			require.ErrorIs(t, (<-done).err, broken)
		})
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestTooManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, guest := pair(t)
		for range MaxCalls {
			begin(t.Context(), c, Streams{})
			receive(t, g, TypeClose) // its input's end: the call is registered
		}
		_, err := c.Run(t.Context(), Start{Argv: []string{"x"}}, Streams{})
		require.ErrorContains(t, err, "already run")
		guest.Close()
	})
}

func TestPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, _ := pair(t)
		done := make(chan error, 1)
		put := func() {
			done <- c.Put(t.Context(), Put{Path: "/tmp/f", Mode: 0o755}, strings.NewReader("content"))
		}
		for _, tc := range []struct {
			exit Exit
			want string
		}{{Exit{}, ""}, {Exit{Code: 1, Message: "no \x1b\x07space"}, "write /tmp/f in the guest: no space"}, {Exit{Code: 137}, "code 137"}} {
			go put()
			f := receive(t, g, TypePut)
			m, err := DecodePut(f.Payload)
			require.NoError(t, err)
			require.Equal(t, Put{Path: "/tmp/f", Mode: 0o755}, m)
			require.Equal(t, "content", string(receive(t, g, TypeData).Payload))
			receive(t, g, TypeClose)
			require.NoError(t, g.Send(Frame{Type: TypeExit, Call: f.Call, Payload: tc.exit.Encode()}))
			if tc.want == "" {
				require.NoError(t, <-done)
			} else {
				require.ErrorContains(t, <-done, tc.want)
			}
		}
	})
}

func TestRunBeforeTheGuestIsUp(t *testing.T) {
	c, _, _ := silentPair(t)
	_, err := c.Run(t.Context(), Start{Argv: []string{"x"}}, Streams{})
	require.ErrorContains(t, err, "not ready")
}

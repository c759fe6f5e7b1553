package control

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// loop is a byte stream from its writer to its reader.
type loop struct{ bytes.Buffer }

func TestTypesTableIsComplete(t *testing.T) {
	for typ := Type(1); typ < typeEnd; typ++ {
		info := types[typ]
		require.NotEmpty(t, info.name, "type %d", typ)
		require.True(t, info.by[Host] || info.by[Guest], "%v: nobody may send it", typ)
		require.LessOrEqual(t, info.min, info.max, "%v", typ)
		require.LessOrEqual(t, info.max, MaxPayload, "%v", typ)
		require.Equal(t, info.name, typ.String())
	}
	require.Equal(t, "type 200", Type(200).String())
}

// anyFrame draws a well-formed frame that side may send.
func anyFrame(side Side) *rapid.Generator[Frame] {
	return rapid.Custom(func(t *rapid.T) Frame {
		var allowed []Type
		for typ := Type(1); typ < typeEnd; typ++ {
			if types[typ].by[side] {
				allowed = append(allowed, typ)
			}
		}
		f := Frame{Type: rapid.SampledFrom(allowed).Draw(t, "type"), Call: rapid.Uint32().Draw(t, "call")}
		info := types[f.Type]
		if info.stream {
			f.Stream = Stream(rapid.IntRange(0, int(streamEnd)-1).Draw(t, "stream"))
		}
		f.Payload = rapid.SliceOfN(rapid.Byte(), info.min, min(info.max, 300)).Draw(t, "payload")
		return f
	})
}

func TestFramesArriveAsSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.SampledFrom([]Side{Host, Guest}).Draw(t, "side")
		frames := rapid.SliceOfN(anyFrame(side), 0, 20).Draw(t, "frames")
		var wire loop
		tx, rx := NewConn(&wire, side), NewConn(&wire, 1-side)
		for _, f := range frames {
			require.NoError(t, tx.Send(f))
		}
		for _, want := range frames {
			got, err := rx.Receive()
			require.NoError(t, err)
			require.Equal(t, want.Type, got.Type)
			require.Equal(t, want.Call, got.Call)
			require.Equal(t, want.Stream, got.Stream)
			require.True(t, bytes.Equal(want.Payload, got.Payload))
		}
		_, err := rx.Receive()
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestReceiveRefuses(t *testing.T) {
	header := func(length, typ, stream, reserved byte) []byte {
		return []byte{length, 0, 0, 0, 7, 0, 0, 0, typ, stream, reserved, 0}
	}
	for name, tc := range map[string]struct {
		wire []byte
		want error
	}{
		"empty":            {nil, io.EOF},
		"half a header":    {header(0, byte(TypeExit), 0, 0)[:5], io.ErrUnexpectedEOF},
		"half a payload":   {append(header(9, byte(TypeExit), 0, 0), 1, 2), io.ErrUnexpectedEOF},
		"no payload":       {header(9, byte(TypeExit), 0, 0), io.ErrUnexpectedEOF},
		"too long":         {[]byte{1, 0, 1, 0, 0, 0, 0, 0, byte(TypeExit), 0, 0, 0}, ErrProtocol},
		"absurdly long":    {[]byte{255, 255, 255, 255, 0, 0, 0, 0, byte(TypeExit), 0, 0, 0}, ErrProtocol},
		"type 0":           {header(0, 0, 0, 0), ErrProtocol},
		"unknown type":     {header(0, byte(typeEnd), 0, 0), ErrProtocol},
		"from wrong side":  {append(header(4, byte(TypeSignal), 0, 0), 9, 0, 0, 0), ErrProtocol},
		"data of no bytes": {header(0, byte(TypeData), 1, 0), ErrProtocol},
		"unknown stream":   {append(header(1, byte(TypeData), 3, 0), 1), ErrProtocol},
		"stream of a call": {append(header(4, byte(TypeHello), 1, 0), 1, 0, 0, 0), ErrProtocol},
		"reserved bytes":   {append(header(4, byte(TypeHello), 0, 1), 1, 0, 0, 0), ErrProtocol},
		"long close":       {append(header(1, byte(TypeClose), 1, 0), 1), ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewConn(bytes.NewBuffer(tc.wire), Host).Receive()
			require.ErrorIs(t, err, tc.want)
		})
	}
}

func TestSendRefusesWhatTheOtherSideWould(t *testing.T) {
	var wire loop
	c := NewConn(&wire, Host)
	require.ErrorIs(t, c.Send(Frame{Type: TypeExit, Payload: Exit{}.Encode()}), ErrProtocol)
	require.ErrorIs(t, c.Send(Frame{Type: TypeData, Payload: make([]byte, MaxData+1)}), ErrProtocol)
	require.Zero(t, wire.Len())
}

// failing accepts some bytes and then fails.
type failing struct {
	io.Reader
	left int
}

var errDisk = errors.New("no more")

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return f.left, errDisk
	}
	f.left -= len(p)
	return len(p), nil
}

func TestSendErrorSticks(t *testing.T) {
	f := &failing{left: 20}
	c := NewConn(f, Host)
	require.NoError(t, c.Send(Frame{Type: TypeShutdown}))
	require.ErrorIs(t, c.Send(Frame{Type: TypeShutdown}), errDisk)
	f.left = 1000 // half a frame is out: what follows would be misread
	require.ErrorIs(t, c.Send(Frame{Type: TypeShutdown}), errDisk)
}

func TestMessagesRoundTrip(t *testing.T) {
	text := rapid.StringN(0, 40, 200)
	words := rapid.SliceOfN(rapid.StringMatching(`[^\x00]+`), 1, 20)
	rapid.Check(t, func(t *rapid.T) {
		hello := Hello{rapid.Uint32().Draw(t, "version"), text.Draw(t, "kernel"), text.Draw(t, "node"), text.Draw(t, "note")}
		gotHello, err := DecodeHello(hello.Encode())
		require.NoError(t, err)
		require.Equal(t, hello, gotHello)

		start := Start{Argv: words.Draw(t, "argv"), Env: words.Draw(t, "env"), TTY: rapid.Bool().Draw(t, "tty"),
			Rows: rapid.Uint16().Draw(t, "rows"), Cols: rapid.Uint16().Draw(t, "cols"), Dir: "/root"}
		b, err := start.Encode()
		require.NoError(t, err)
		gotStart, err := DecodeStart(b)
		require.NoError(t, err)
		require.Equal(t, start, gotStart)

		put := Put{Path: text.Draw(t, "path"), Mode: rapid.Uint32().Draw(t, "mode")}
		gotPut, err := DecodePut(put.Encode())
		require.NoError(t, err)
		require.Equal(t, put, gotPut)

		exit := Exit{Code: rapid.Int32().Draw(t, "code"), Signal: rapid.Uint32().Draw(t, "signal"), Message: text.Draw(t, "message"),
			Missing: words.Draw(t, "missing"), More: rapid.Uint32().Draw(t, "more")}
		gotExit, err := DecodeExit(exit.Encode())
		require.NoError(t, err)
		require.Equal(t, exit, gotExit)
	})
}

func TestStartThatCannotBeSent(t *testing.T) {
	for name, s := range map[string]Start{
		"nothing to run":  {},
		"empty name":      {Argv: []string{""}},
		"NUL":             {Argv: []string{"a", "b\x00c"}},
		"NUL in dir":      {Argv: []string{"a"}, Dir: "\x00"},
		"too many bytes":  {Argv: []string{"a", strings.Repeat("x", MaxPayload)}},
		"too many words":  {Argv: append([]string{"a"}, make([]string, maxStrings)...)},
		"too much to env": {Argv: []string{"a"}, Env: []string{strings.Repeat("x", MaxPayload)}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Encode()
			require.Error(t, err)
		})
	}
}

// FuzzReceive feeds bytes to both ends. What is accepted must be well-formed, and its message must
// decode or be refused, without a crash and without more memory than the input deserves.
func FuzzReceive(f *testing.F) {
	var wire loop
	c := NewConn(&wire, Guest)
	for _, fr := range []Frame{
		{Type: TypeHello, Payload: Hello{1, "6.1", "/dev/dri/renderD128", ""}.Encode()},
		{Type: TypeData, Stream: Stdout, Call: 1, Payload: []byte("hi")},
		{Type: TypeExit, Call: 1, Payload: Exit{Code: 3, Message: "m", Missing: []string{"a", "b"}, More: 1}.Encode()},
	} {
		if err := c.Send(fr); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(wire.Bytes(), byte(Host))
	start, _ := Start{Argv: []string{"sh", "-c", "true"}, Env: []string{"A=b"}}.Encode()
	var toGuest loop
	if err := NewConn(&toGuest, Host).Send(Frame{Type: TypeStart, Call: 1, Payload: start}); err != nil {
		f.Fatal(err)
	}
	f.Add(toGuest.Bytes(), byte(Guest))
	f.Fuzz(func(t *testing.T, wire []byte, side byte) {
		c := NewConn(bytes.NewBuffer(wire), Side(side&1))
		for {
			fr, err := c.Receive()
			if err != nil {
				return
			}
			require.NoError(t, fr.check(1-Side(side&1)))
			var again []byte
			switch fr.Type {
			case TypeHello:
				if m, err := DecodeHello(fr.Payload); err == nil {
					again = m.Encode()
				}
			case TypeStart:
				if m, err := DecodeStart(fr.Payload); err == nil {
					if b, err := m.Encode(); err == nil { // not with a NUL in a word
						again = b
					}
				}
			case TypePut:
				if m, err := DecodePut(fr.Payload); err == nil {
					again = m.Encode()
				}
			case TypeExit:
				if m, err := DecodeExit(fr.Payload); err == nil {
					again = m.Encode()
				}
			case TypeWindow, TypeSignal, TypeResize:
				again = U32(fr.Value())
			}
			if again != nil {
				require.Equal(t, fr.Payload, again, "%v is not canonical", fr.Type)
			}
		}
	})
}

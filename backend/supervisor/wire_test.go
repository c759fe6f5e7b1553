package supervisor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessages(t *testing.T) {
	for o, e := range operations {
		m := message{op: o}
		if e.text {
			m.text = "why"
		}
		if e.code {
			m.code = 13
		}
		got, err := decode(m.append(nil), e.fromChild)
		require.NoError(t, err, "%v", o)
		require.Equal(t, m, got)
		_, err = decode(m.append(nil), !e.fromChild)
		require.ErrorIs(t, err, errWire, "%v in the wrong direction", o)
		require.Equal(t, e.text, decodes(message{op: o, text: "x"}.append(nil), e.fromChild), "%v with a text", o)
		require.Equal(t, e.code, decodes(message{op: o, code: 1}.append(nil), e.fromChild), "%v with a code", o)
	}
	long := message{op: opFailed, text: strings.Repeat("ü", maxText)}.append(nil)
	require.Len(t, long, maxMessage, "it is cut")
	for _, bad := range [][]byte{nil, make([]byte, headBytes), {byte(opReady)}, {byte(opReady), 1, 0, 0, 0, 0, 0, 0}, append(long, 'x'), {99, 0, 0, 0, 0, 0, 0, 0}} {
		require.False(t, decodes(bad, true), "%v", bad)
	}
}

func decodes(b []byte, fromChild bool) bool {
	_, err := decode(b, fromChild)
	return err == nil
}

// What decodes encodes to the same bytes, so nothing is in a message that is not looked at.
func FuzzLink(f *testing.F) {
	for o := range operations {
		f.Add(message{op: o}.append(nil))
	}
	f.Add(message{op: opFailed, code: 125, text: "no device"}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, fromChild := range []bool{true, false} {
			m, err := decode(b, fromChild)
			if err != nil {
				require.ErrorIs(t, err, errWire)
				continue
			}
			require.Equal(t, b, m.append(nil))
			require.Equal(t, fromChild, operations[m.op].fromChild)
		}
	})
}

// The parent's side of the protocol, for all conversations of four messages, against what the package
// comment draws.
func TestConversations(t *testing.T) {
	legal := map[stage]map[op]stage{
		starting: {opReady: serving, opSeat: starting, opFailed: ending},
		serving:  {opSeat: serving, opFailed: ending},
		ending:   {},
	}
	all := []op{opReady, opFailed, opSeat, opSeated, opRefused, opAbsent}
	const length = 4
	conversations := 1
	for range length {
		conversations *= len(all)
	}
	for n := range conversations {
		c, want := conversation{}, starting
		for k := n; ; k /= len(all) {
			o := all[k%len(all)]
			next, ok := legal[want][o]
			err := c.take(message{op: o})
			if !ok {
				require.ErrorIs(t, err, errWire, "%v while %d", o, want)
				break
			}
			require.NoError(t, err)
			want = next
			require.Equal(t, want, c.stage)
			if k == 0 {
				break
			}
		}
	}
}

package virgl

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestEveryOperationIsInTheTable(t *testing.T) {
	for o := op(1); o < opEnd; o++ {
		require.NotEmpty(t, operations[o].name, "operation %d", uint16(o))
		require.Equal(t, o != opFence, operations[o].run != nil, "operation %v", o)
	}
	require.Equal(t, "do operation 999", op(999).String())
}

func TestWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := request{op: op(rapid.Uint16Range(1, uint16(opEnd-1)).Draw(t, "op")),
			payload: rapid.Uint32Max(maxPayload).Draw(t, "payload"), number: rapid.Uint64().Draw(t, "number")}
		for i := range q.words {
			q.words[i] = rapid.Uint32().Draw(t, "word")
		}
		b := q.append(nil)
		require.Len(t, b, requestBytes)
		got, err := decodeRequest(b)
		require.NoError(t, err)
		require.Equal(t, q, got)

		r := reply{number: q.number, errno: unix.Errno(q.words[0]), payload: q.payload}
		b = r.append(nil)
		require.Len(t, b, replyBytes)
		reply, err := decodeReply(b)
		require.NoError(t, err)
		require.Equal(t, r, reply)

		s := span{q.words[0], join(q.words[1], q.words[2]), join(q.words[3], q.words[4])}
		b = s.append(nil)
		require.Len(t, b, spanBytes)
		require.Equal(t, s, decodeSpan(b))
		require.Equal(t, q.words[1], low(s.off))
		require.Equal(t, q.words[2], high(s.off))
	})
}

// FuzzWorker feeds a worker anything on its socket: it ends with an error, and
// neither panics nor touches what it did not map.
func FuzzWorker(f *testing.F) {
	for o := op(1); o < opEnd; o++ {
		q := request{op: o, number: 1, words: [maxWords]uint32{1, 1, 1}}
		f.Add(q.append(nil))
		q.payload = spanBytes
		f.Add(append(q.append(nil), make([]byte, spanBytes)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		w := &worker{lib: fakeLibrary(), socket: sockets[0], memory: newMemory(), in: bytes.Clone(b)}
		w.pollFD = w.lib.pollFD()
		submit := w.lib.submit
		w.lib.submit = func(cmd *byte, ctx, n int32) int32 {
			if *cmd == FakeHang || *cmd == FakeExit {
				return 0
			}
			return submit(cmd, ctx, n)
		}
		if w.run() == nil && len(w.in) >= requestBytes { // the rest of a request is to come
			_, err = decodeRequest(w.in)
			require.NoError(t, err)
		}
		for _, list := range w.memory.backings {
			list.free()
		}
		for _, fd := range append(sockets[:], int(w.pollFD)) {
			require.NoError(t, unix.Close(fd))
		}
	})
}

func FuzzGreeting(f *testing.F) {
	f.Add(appendCapset(appendCapset(nil, capset{ID: 1, Version: 1, Data: []byte("caps")}), capset{ID: 2}))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeCapsets(b)
		if err != nil {
			return
		}
		var again []byte
		for _, c := range list {
			again = appendCapset(again, c)
		}
		require.Equal(t, string(b), string(again))
	})
}

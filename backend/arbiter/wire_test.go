package arbiter

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

func goodHello() Hello {
	return Hello{GPU: 3, Name: "guest-1.a_B", Key: Key{1, 2, 3}, Share: sched.Share{Weight: 50, Cap: 0.5, Reserve: 0.125,
		Class: sched.Latency, Priority: 7, SLA: 150 * time.Millisecond}, Needs: Amounts{Channels: 6, Contexts: 1 << 31, VRAM: 512 * MiB}}
}

func TestHello(t *testing.T) {
	h := goodHello()
	got, err := decodeHello(h.encode())
	require.NoError(t, err)
	require.Equal(t, h, got)
	h.Name = strings.Repeat("n", maxName)
	got, err = decodeHello(h.encode())
	require.NoError(t, err)
	require.Equal(t, h.Name, got.Name)

	for name, spoil := range map[string]func(b []byte) []byte{
		"empty":          func(b []byte) []byte { return nil },
		"short":          func(b []byte) []byte { return b[:helloBytes-1] },
		"long":           func(b []byte) []byte { return append(b, 0) },
		"magic":          func(b []byte) []byte { b[0]++; return b },
		"no name":        func(b []byte) []byte { clear(b[helloTo:helloEnd]); return b },
		"name too big":   func(b []byte) []byte { copy(b[helloTo:], strings.Repeat("n", maxName+1)); return b },
		"control":        func(b []byte) []byte { b[helloTo] = '\n'; return b },
		"slash":          func(b []byte) []byte { b[helloTo] = '/'; return b },
		"after name":     func(b []byte) []byte { b[helloEnd-1] = 'x'; return b },
		"after end":      func(b []byte) []byte { b[helloBytes-1] = 1; return b },
		"class":          func(b []byte) []byte { b[helloEnd+1] = 1; return b },
		"1.3 with needs": func(b []byte) []byte { b[6] = 3; return b },
		"1.1 with SLA":   func(b []byte) []byte { b[6] = 1; return b },
	} {
		h := goodHello()
		_, err := decodeHello(spoil(h.encode()))
		require.ErrorIs(t, err, ErrWire, name)
	}
	h = goodHello()
	b := h.encode()
	binary.LittleEndian.PutUint16(b[4:], VersionMajor+1)
	_, err = decodeHello(b)
	require.ErrorIs(t, err, errVersion)

	h = goodHello()
	h.Share.Class, h.Share.Priority, h.Share.SLA, h.Needs = 0, 0, 0, Amounts{}
	b = h.encode()
	b[6] = 1
	got, err = decodeHello(b)
	require.NoError(t, err, "version 1.1 has neither class nor priority nor SLA")
	require.Equal(t, h, got)
}

func TestMessages(t *testing.T) {
	for op, info := range operations {
		m := message{op: op, engine: Copy, value: 7, grant: 1 << 40}
		if op == opRefuse {
			m.text = "why"
		}
		require.NotContains(t, op.String(), "operation", "it has a name")
		got, err := decodeMessage(m.append(nil), info.fromArbiter)
		require.NoError(t, err, op)
		require.Equal(t, m, got)
		_, err = decodeMessage(m.append(nil), !info.fromArbiter)
		require.ErrorIs(t, err, ErrWire, "%v from the wrong side", op)
	}
	good := message{op: opYield}.append(nil)
	for name, spoil := range map[string]func(b []byte) []byte{
		"empty":    func(b []byte) []byte { return nil },
		"short":    func(b []byte) []byte { return b[:messageBytes-1] },
		"long":     func(b []byte) []byte { return append(b, 0) },
		"unknown":  func(b []byte) []byte { b[0] = 99; return b },
		"engine":   func(b []byte) []byte { b[2] = byte(Engines); return b },
		"reserved": func(b []byte) []byte { b[31] = 1; return b },
	} {
		_, err := decodeMessage(spoil(bytes.Clone(good)), false)
		require.ErrorIs(t, err, ErrWire, name)
	}
	long := message{op: opRefuse, text: strings.Repeat("x", 2*maxText)}.append(nil)
	got, err := decodeMessage(long, true)
	require.NoError(t, err)
	require.Len(t, got.text, maxText)
	_, err = decodeMessage(append(long, 0), true)
	require.ErrorIs(t, err, ErrWire)
}

func FuzzHello(f *testing.F) {
	h := goodHello()
	f.Add(h.encode())
	h.Share = sched.Share{Weight: 1, Class: 255, Priority: math.MaxUint32, SLA: math.MaxUint32 * time.Microsecond}
	f.Add(h.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err != nil {
			return
		}
		require.NoError(t, checkName(h.Name))
		again := h.encode()
		copy(again[4:8], b[4:8]) // the minor version is not kept
		require.Equal(t, b, again)
	})
}

func FuzzMessage(f *testing.F) {
	for op, info := range operations {
		f.Add(message{op: op, engine: 1, value: 2, grant: 3}.append(nil), info.fromArbiter)
	}
	f.Add(message{op: opRefuse, text: "no"}.append(nil), true)
	f.Fuzz(func(t *testing.T, b []byte, fromArbiter bool) {
		m, err := decodeMessage(b, fromArbiter)
		if err != nil {
			return
		}
		require.Less(t, m.engine, Engines)
		require.Equal(t, fromArbiter, operations[m.op].fromArbiter)
		require.Equal(t, b, m.append(nil))
	})
}

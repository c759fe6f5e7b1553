package hypercall

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzConsumer reads a queue whose counters and slots hold anything. It never
// panics, ends, and hands out only bytes that the queue has.
func FuzzConsumer(f *testing.F) {
	one := make([]byte, SlotBytes)
	Header{Op: OpNop, Bytes: HeaderBytes}.encode(one)
	f.Add(uint32(0), uint32(1), one)
	f.Add(uint32(math.MaxUint32), uint32(MinSlots-1), one)
	f.Add(uint32(5), uint32(2), []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, start, ahead uint32, slots []byte) {
		front, back := newPair(t, smallLayout)
		c := back.RequestsIn()
		startAt(front.Requests(), c, start)
		for at := 0; at < len(c.slots) && len(slots) > 0; {
			at += copy(c.slots[at:], slots)
		}
		c.tail.Store(start + ahead)

		buf := make([]byte, MaxMessage)
		taken := uint32(0)
		for messages := uint32(0); ; messages++ {
			require.LessOrEqual(t, messages, uint32(MinSlots), "more messages than slots")
			h, payload, ok, err := c.Get(buf)
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				break
			}
			if !ok {
				require.Equal(t, ahead, taken, "everything was read")
				break
			}
			require.EqualValues(t, h.Bytes, HeaderBytes+len(payload))
			require.LessOrEqual(t, int(h.Bytes), MaxMessage)
			taken += slotsFor(int(h.Bytes))
			require.LessOrEqual(t, taken, ahead)
			require.Equal(t, start+taken, c.head.Load())
		}
	})
}

// FuzzProducer writes into a queue whose consumer stores anything as head.
func FuzzProducer(f *testing.F) {
	f.Add(uint32(0), uint32(0), uint16(100))
	f.Add(uint32(math.MaxUint32), uint32(3), uint16(MaxMessage-HeaderBytes))
	f.Add(uint32(7), uint32(1<<31), uint16(MaxMessage))
	f.Fuzz(func(t *testing.T, start, head uint32, size uint16) {
		front, back := newPair(t, smallLayout)
		p := front.Requests()
		startAt(p, back.RequestsIn(), start)
		p.head.Store(head)
		payload := make([]byte, size)
		slots := uint32(0)
		for {
			ok, err := p.Put(Header{Op: OpExec}, payload)
			if int(size) > MaxMessage-HeaderBytes {
				require.Error(t, err)
				require.NotErrorIs(t, err, ErrCorrupt)
				break
			}
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				break
			}
			if !ok {
				break
			}
			slots += slotsFor(HeaderBytes + int(size))
			require.LessOrEqual(t, slots, uint32(2*MinSlots), "head grants room once")
		}
		require.Equal(t, start+slots, p.next)
	})
}

// FuzzDecode gives arbitrary payloads to the decoders of every operation. What
// decodes, encodes to the same bytes, so that no two encodings mean the same
// and nothing is dropped; and it takes memory in proportion to the payload.
func FuzzDecode(f *testing.F) {
	for _, o := range Ops {
		f.Add(uint16(o.Op), false, sample(o.Request).Append(nil))
		f.Add(uint16(o.Op), true, sample(o.Answer).Append(nil))
	}
	f.Fuzz(func(t *testing.T, op uint16, answer bool, b []byte) {
		info, ok := Op(op).Info()
		if !ok {
			return
		}
		p := info.Request
		if answer {
			p = info.Answer
		}
		name := p.Name()
		if p.Type == nil || len(b) > MaxMessage-HeaderBytes {
			return
		}
		m, err := p.Decode(b)
		if err != nil {
			require.True(t, errors.Is(err, ErrMessage), "%s: %v", name, err)
			return
		}
		if _, owner := m.(Owner); !owner || len(b) > 0 { // an empty one is the zero Owner
			require.Equal(t, b, m.(encoder).Append([]byte{}), name)
		}
		require.LessOrEqual(t, memory(reflect.ValueOf(m)), 2*len(b)+128, name)
	})
}

// memory is how many bytes a decoded payload takes.
func memory(v reflect.Value) int {
	n := int(v.Type().Size())
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if k := v.Field(i).Kind(); k == reflect.Slice || k == reflect.String {
				n += memory(v.Field(i))
			}
		}
	case reflect.Slice:
		n += v.Len() * int(v.Type().Elem().Size())
	case reflect.String:
		n += v.Len()
	}
	return n
}

// FuzzDoorbell checks that a doorbell that decodes is one that this package would make.
func FuzzDoorbell(f *testing.F) {
	f.Add(Doorbell{Op: DoorbellAttach, Resource: 1, Layout: DefaultLayout}.Encode())
	f.Add(Doorbell{Op: DoorbellKick}.Encode())
	f.Add(Doorbell{Op: DoorbellArm}.Encode())
	f.Add([]byte("PVDR"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecodeDoorbell(b)
		if err != nil {
			return
		}
		require.True(t, IsDoorbell(b))
		again, err := DecodeDoorbell(d.Encode())
		require.NoError(t, err)
		require.Equal(t, d, again)
		if d.Op == DoorbellAttach {
			require.NoError(t, d.Layout.Validate())
			require.LessOrEqual(t, d.Layout.Bytes(), uint64(MaxRingBytes))
			require.LessOrEqual(t, d.Layout.bulkStart(), d.Layout.Bytes())
		}
	})
}

// FuzzLocal checks that a local message that decodes encodes to the same.
func FuzzLocal(f *testing.F) {
	for op := LocalHello; op <= LocalExport; op++ {
		f.Add(append(LocalMessage{Op: op, Errno: 1, ID: 2, Version: LocalVersion, Size: 3}.Encode(), "rest"...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, rest, err := DecodeLocal(b)
		if err != nil {
			require.ErrorIs(t, err, ErrMessage)
			return
		}
		require.Equal(t, b[LocalBytes:], rest)
		again, _, err := DecodeLocal(m.Encode())
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

// FuzzCapset checks that only compatible versions pass.
func FuzzCapset(f *testing.F) {
	f.Add(Capset{Major: VersionMajor, Minor: VersionMinor, MaxRing: MaxRingBytes, MaxChannels: MaxChannels}.Encode())
	f.Add(Capset{Major: 2}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCapset(b)
		if err != nil {
			return
		}
		require.EqualValues(t, VersionMajor, c.Major)
		require.GreaterOrEqual(t, int(c.Minor), VersionMinor)
		again, err := DecodeCapset(c.Encode())
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

package hypercall

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unhex takes hexadecimal digits with spaces and line ends in between.
func unhex(t require.TestingT, s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	require.NoError(t, err)
	return b
}

// The fixed structures, byte by byte. Whoever changes one of these changes the
// protocol.
func TestFixedStructures(t *testing.T) {
	var header [HeaderBytes]byte
	Header{Op: 0x0102, Flags: 0x0304, Bytes: 0x05060708, ID: 0x090a0b0c, Errno: 0x0d0e0f10}.encode(header[:])
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"capset": {Capset{Major: 0x0102, Minor: 0x0304, Features: 0x05060708090a0b0c, MaxRing: 0x0d0e0f10, MaxChannels: 0x11121314}.Encode(),
			`31565f505644524d 0201 0403 00000000 0c0b0a0908070605 100f0e0d 14131211` + strings.Repeat("00", 32)},
		"doorbell": {Doorbell{Op: DoorbellAttach, Resource: 0x01020304, Layout: Layout{0x05060708, 0x090a0b0c, 0x0d0e0f10}, Flags: 0x11121314}.Encode(),
			`50564452 0100 0000 04030201 08070605 0c0b0a09 100f0e0d 14131211 00000000`},
		"local message": {LocalMessage{Op: LocalGrant, Errno: 0x0102, ID: 0x03040506, Version: 0x0f101112, Size: 0x0708090a0b0c0d0e}.Encode(),
			`5056524c 0200 0201 06050403 1211100f 0e0d0c0b0a090807 0000000000000000`},
		"header": {header[:], `0201 0403 08070605 0c0b0a09 100f0e0d`},
	} {
		require.Equal(t, unhex(t, c.want), c.got, name)
	}
	require.Equal(t, Header{Op: 0x0102, Flags: 0x0304, Bytes: 0x05060708, ID: 0x090a0b0c, Errno: 0x0d0e0f10},
		decodeHeader(binary.LittleEndian.Uint64(header[:]), binary.LittleEndian.Uint64(header[8:])))
}

// The words of the control page and of a channel record, where the documentation says.
func TestPlaces(t *testing.T) {
	f, b := newPair(t, smallLayout)
	at32 := func(off int) uint32 { return binary.LittleEndian.Uint32(f.mem[off:]) }
	at64 := func(off int) uint64 { return binary.LittleEndian.Uint64(f.mem[off:]) }

	rp, rc, cp, cc := f.Requests(), b.RequestsIn(), b.CompletionsOut(), f.Completions()
	require.True(t, rc.Sleep())
	require.True(t, cc.Sleep())
	require.EqualValues(t, 1, at32(0x080))
	require.EqualValues(t, 1, at32(0x140))
	mustPut(t, rp, Header{Op: OpNop}, make([]byte, 2*SlotBytes))
	rp.Publish()
	mustPut(t, cp, Header{Op: OpNop}, nil)
	cp.Publish()
	require.EqualValues(t, 0, at32(0x080))
	require.EqualValues(t, 0, at32(0x140))
	require.EqualValues(t, 3, at32(0x000))
	require.EqualValues(t, 1, at32(0x0c0))
	mustGet(t, rc)
	mustGet(t, cc)
	require.EqualValues(t, 3, at32(0x040))
	require.EqualValues(t, 1, at32(0x100))
	b.SetState(StateEnded)
	require.EqualValues(t, 2, at32(0x180))
	require.EqualValues(t, OpNop, at32(0x2000))
	require.EqualValues(t, OpNop, at32(0x2000+MinSlots*64))

	b.SetDone(2, 0x0102030405060708)
	b.SetFailed(2, 0x1112131415161718, 0x21, 0x31)
	const record = 0x1000 + 2*32
	require.EqualValues(t, 0x0102030405060708, at64(record))
	require.EqualValues(t, 0x1112131415161718, at64(record+8))
	require.EqualValues(t, 0x21, at32(record+16))
	require.EqualValues(t, 0x31, at32(record+20))
}

func TestCapsetHandshake(t *testing.T) {
	right := Capset{Major: VersionMajor, Minor: VersionMinor, Features: 5, MaxRing: MaxRingBytes, MaxChannels: MaxChannels}
	c, err := DecodeCapset(append(right.Encode(), 1, 2, 3))
	require.NoError(t, err, "longer ones are cut")
	require.Equal(t, right, c)

	later := right
	later.Minor++
	_, err = DecodeCapset(later.Encode())
	require.NoError(t, err)
	for _, wrong := range []Capset{{Major: VersionMajor + 1}, {Major: VersionMajor - 1, Minor: 9}} {
		_, err = DecodeCapset(wrong.Encode())
		require.ErrorContains(t, err, "speaks protocol", "%+v", wrong)
	}
	for name, b := range map[string][]byte{"nothing": nil, "short": right.Encode()[:CapsetBytes-1], "zeroes": make([]byte, CapsetBytes)} {
		_, err = DecodeCapset(b)
		require.ErrorContains(t, err, "no PVDRM capset", name)
	}
	require.Less(t, CapsetID, 64, "Linux keeps them in a 64-bit set")
}

func TestDoorbells(t *testing.T) {
	for _, d := range []Doorbell{
		{Op: DoorbellAttach, Resource: 9, Layout: DefaultLayout},
		{Op: DoorbellAttach, Resource: 9, Layout: DefaultLayout, Flags: DoorbellNoPoll}, {Op: DoorbellAttach, Layout: DefaultLayout, Flags: DoorbellWatch}, {Op: DoorbellKick}, {Op: DoorbellArm},
	} {
		b := d.Encode()
		require.Len(t, b, DoorbellBytes)
		require.True(t, IsDoorbell(b))
		got, err := DecodeDoorbell(append(b, make([]byte, 32)...))
		require.NoError(t, err)
		require.Equal(t, d, got)
		_, err = DecodeDoorbell(b[:DoorbellBytes-1])
		require.Error(t, err)
	}
	for name, b := range map[string][]byte{
		"empty":      nil,
		"magic":      append([]byte{0}, Doorbell{Op: DoorbellKick}.Encode()[1:]...),
		"operation":  Doorbell{Op: DoorbellArm + 1}.Encode(),
		"no slots":   Doorbell{Op: DoorbellAttach}.Encode(),
		"flags":      Doorbell{Op: DoorbellAttach, Layout: DefaultLayout, Flags: 4}.Encode(),
		"huge slots": Doorbell{Op: DoorbellAttach, Layout: Layout{1 << 31, 1 << 31, 0}}.Encode(),
	} {
		_, err := DecodeDoorbell(b)
		require.Error(t, err, name)
	}
	require.False(t, IsDoorbell([]byte("PVD")))
	require.False(t, IsDoorbell([]byte("RVDP")))
}

func TestLocalMessages(t *testing.T) {
	for op := LocalHello; op <= LocalExport; op++ {
		m := LocalMessage{Op: op, Errno: 7, ID: 8, Size: 1 << 40}
		b := m.Encode()
		require.Len(t, b, LocalBytes)
		got, rest, err := DecodeLocal(append(b, "tail"...))
		require.NoError(t, err)
		require.Equal(t, m, got)
		require.Equal(t, []byte("tail"), rest)
	}
	whole := LocalMessage{Op: LocalHello}.Encode()
	for name, b := range map[string][]byte{
		"empty":          nil,
		"short":          whole[:LocalBytes-1],
		"magic":          bytes.Replace(whole, []byte("PVRL"), []byte("PVRX"), 1),
		"operation 0":    LocalMessage{}.Encode(),
		"operation past": LocalMessage{Op: LocalExport + 1}.Encode(),
	} {
		_, _, err := DecodeLocal(b)
		require.ErrorIs(t, err, ErrMessage, name)
	}
}

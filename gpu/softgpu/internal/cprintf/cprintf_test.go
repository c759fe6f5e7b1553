package cprintf

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// printfMemory is the memory of a thread that prints.
type printfMemory map[uint64]byte

func (m printfMemory) put(addr uint64, b []byte) {
	for i, c := range b {
		m[addr+uint64(i)] = c
	}
}

func (m printfMemory) read(addr, size uint64) uint64 {
	var b [8]byte
	for i := range size {
		b[i] = m[addr+i]
	}
	return binary.LittleEndian.Uint64(b[:])
}

const formatAt, argsAt, textAt = 0x1000, 0x8000, 0x9000

// The expected texts are those of C's printf (glibc), but for %p of null.
func TestPrintf(t *testing.T) {
	for _, c := range []struct {
		format string
		args   []any // int32, int64, float64, string
		want   string
	}{
		{format: "plain\n", want: "plain\n"},
		{format: "%d %i %u\n", args: []any{int32(-7), int32(42), int32(-1)}, want: "-7 42 4294967295\n"},
		{format: "[%5d|%-5d|%05d|%+d|% d]", args: []any{int32(42), int32(42), int32(42), int32(42), int32(42)}, want: "[   42|42   |00042|+42| 42]"},
		{format: "[%.3d|%6.3d|%06.3d|%.0d]", args: []any{int32(5), int32(5), int32(5), int32(0)}, want: "[005|   005|   005|]"},
		{format: "%x %X %#x %#X %o %#o", args: []any{int32(255), int32(255), int32(255), int32(255), int32(8), int32(8)}, want: "ff FF 0xff 0XFF 10 010"},
		{format: "%ld %lld %lu %llx %zu %hd", args: []any{int64(-1 << 40), int64(1 << 40), int64(-1), int64(255), int64(9), int32(3)},
			want: "-1099511627776 1099511627776 18446744073709551615 ff 9 3"},
		{format: "%f %.2f %8.3f|%-8.1f|%08.2f %+.1f", args: []any{1.5, 2.345, 3.14159, 2.25, -1.5, 0.5}, want: "1.500000 2.35    3.142|2.2     |-0001.50 +0.5"},
		{format: "%e %.1E %g %g %G %g", args: []any{12345.678, 0.00012, 0.0001, 1e-5, 1e10, 100000.0}, want: "1.234568e+04 1.2E-04 0.0001 1e-05 1E+10 100000"},
		{format: "%#g %g %.3g %#.0f", args: []any{1.0, 1234567.0, 1234567.0, 3.0}, want: "1.00000 1.23457e+06 1.23e+06 3."},
		{format: "%a %A %a", args: []any{1.0, 0.5, 0.0}, want: "0x1p+0 0X1P-1 0x0p+0"},
		{format: "%f %F %5.1f %e", args: []any{math.Inf(1), math.NaN(), math.Inf(-1), math.Inf(1)}, want: "inf NAN  -inf inf"},
		{format: "%s|%8s|%-8s|%.2s", args: []any{"text", "text", "text", "text"}, want: "text|    text|text    |te"},
		{format: "%c%c%5c|", args: []any{int32('o'), int32('k'), int32('!')}, want: "ok    !|"},
		{format: "%*d|%-*d|%.*f", args: []any{int32(5), int32(1), int32(4), int32(2), int32(1), 2.75}, want: "    1|2   |2.8"},
		{format: "%*d|", args: []any{int32(-4), int32(7)}, want: "7   |"},
		{format: "%p %p", args: []any{int64(0x7f00), int64(0)}, want: "0x7f00 (nil)"},
		{format: "%d%% of %d", args: []any{int32(50), int32(2)}, want: "50% of 2"},
		{format: "%y %", want: "%y %"},
		{format: "%d %f %d %s", args: []any{int32(1), 2.0, int32(3), "x"}, want: "1 2.000000 3 x"},
	} {
		m := printfMemory{}
		m.put(formatAt, append([]byte(c.format), 0))
		at, text := uint64(argsAt), uint64(textAt)
		place := func(size, v uint64) {
			at = (at + size - 1) &^ (size - 1)
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], v)
			m.put(at, b[:size])
			at += size
		}
		for _, a := range c.args {
			switch a := a.(type) {
			case int32:
				place(4, uint64(uint32(a)))
			case int64:
				place(8, uint64(a))
			case float64:
				place(8, math.Float64bits(a))
			case string:
				m.put(text, append([]byte(a), 0))
				place(8, text)
				text += uint64(len(a)) + 1
			}
		}
		got, n := Format(m.read, formatAt, argsAt)
		require.Equal(t, c.want, got, c.format)
		require.Equal(t, len(c.args), n, c.format)
	}
}

// Whatever a kernel gives to printf, the output is bounded.
func FuzzPrintf(f *testing.F) {
	f.Add([]byte("%d %s %*.*f\x00"), []byte{1, 2, 3, 4, 0, 0, 0, 0x7f})
	f.Add([]byte("%1000000000s%-99999999999d%.999999a"), []byte{255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, format, args []byte) {
		read := func(addr, size uint64) uint64 {
			var b [8]byte
			for i := range size {
				if a := addr + i - argsAt; a < uint64(len(args)) {
					b[i] = args[a]
				} else if a := addr + i - formatAt; a < uint64(len(format)) {
					b[i] = format[a]
				}
			}
			return binary.LittleEndian.Uint64(b[:])
		}
		text, _ := Format(read, formatAt, argsAt)
		require.LessOrEqual(t, len(text), maxLine)
	})
}

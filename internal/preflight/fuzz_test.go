package preflight

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzProgram looks at bytes as at a file. Whatever they are, the report is bounded, can be shown
// and comes in time.
func FuzzProgram(f *testing.F) {
	fat := makeFatbin(f, image{arch: 75, data: cubin(true), flags: packedLZ4}, image{ptx: true, arch: 75, data: source(75, "mov.u32 %r1, 1;"), flags: packedZstd},
		image{ptx: true, arch: 90, data: source(90, refusedLine)})
	section := part{name: ".nv_fatbin", kind: elf.SHT_PROGBITS, data: fat}
	text := part{name: ".rodata", kind: elf.SHT_PROGBITS, data: []byte("cuGreenCtxCreate\x00")}
	program := imports(undefined("cuGreenCtxCreate", "__cudaRegisterFatBinary"), []string{"libcublas.so.12"}, section, text)
	for _, b := range [][]byte{program, fat, source(75, "mov.u32 %r1, 1;"), source(90, refusedLine), cubin(true)} {
		f.Add(b)
	}
	// ELF files that lie: many sections, names and tables elsewhere, sections that overlap.
	lie := func(at int, value uint64) {
		b := bytes.Clone(program)
		binary.LittleEndian.PutUint64(b[at:], value)
		f.Add(b)
	}
	headers := binary.LittleEndian.Uint64(program[40:])
	lie(40, 1<<63)
	lie(40, uint64(len(program)-10))
	lie(56, 0xffff_ffff_0040_0000)
	for section := range uint64(8) {
		at := int(headers + section*sectionBytes)
		lie(at, 1<<40)      // name and kind
		lie(at+24, 1<<63)   // offset
		lie(at+32, 1<<63-1) // size
		lie(at+40, 1<<31)   // link
		lie(at+8, uint64(elf.SHF_COMPRESSED))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const patience = 30 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, err := InspectBytes(ctx, "file", b, Options{})
		if err != nil {
			require.NoError(t, ctx.Err(), "it takes too long")
			return
		}
		require.LessOrEqual(t, len(r.Missing), MaxFindings)
		require.LessOrEqual(t, len(r.Hints), maxHints)
		for _, m := range r.Missing {
			require.LessOrEqual(t, len(m.What), maxText)
			require.LessOrEqual(t, len(m.Why), maxText)
			require.NotContains(t, m.What+m.Why, "\x1b")
			require.NotContains(t, m.What+m.Why, "\n")
		}
	})
}

// Sections and symbols of a program have names that lie in each other, and all in one table.
func TestOverlappingTables(t *testing.T) {
	const n = 1 << 20
	names := bytes.Repeat([]byte("cudaX"), n/5)
	program := imports(undefined("cuInit"), nil, part{name: ".nv_fatbin", kind: elf.SHT_PROGBITS, data: names})
	headers := binary.LittleEndian.Uint64(program[40:])
	// The symbol table and its strings are all of the file.
	for _, section := range []uint64{1, 2, 3, 4} {
		binary.LittleEndian.PutUint64(program[headers+section*sectionBytes+24:], 0)
		binary.LittleEndian.PutUint64(program[headers+section*sectionBytes+32:], uint64(len(program)))
	}
	r := inspect(t, program, 0)
	require.LessOrEqual(t, len(r.Missing), MaxFindings)
}

// Fatbins that are small, and say truly that what is in them is as large as can be.
func TestBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine unpacks a gigabyte: under the race detector that takes long and finds nothing")
	}
	bomb := makeFatbin(t, image{ptx: true, arch: 75, data: make([]byte, 60<<20), flags: packedZstd})
	require.Less(t, len(bomb), 1<<14)
	r := inspect(t, bytes.Repeat(bomb, 5000), 0)
	require.Len(t, r.Missing, MaxFindings)
	require.Positive(t, r.More)
	require.Contains(t, r.Missing[len(r.Missing)-1].Why, "more than 1073741824 bytes")
}

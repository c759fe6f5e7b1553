package hw

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// testView maps the first pages of VRAM and of the bus one after another, from address 0:
// four of VRAM, of which the last is read-only, then two of the bus. What follows is not
// mapped.
func testView(t testing.TB) (v View, memory []byte) {
	vram, err := NewVRAM(2 * LargePage)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, vram.Unmap()) })
	m := &MMU{VRAM: vram}
	host := hostPages(t, 2*SmallPage)
	o, err := m.Bus.Add([][]byte{host[SmallPage:], host[:SmallPage]})
	require.NoError(t, err)
	const directory, table, frames = 1 << 20, 0x10000, 0x8000
	vram.SetWord(directory, uint64(MakePDE(0x200000, table)))
	for i := range uint64(4) {
		vram.SetWord(table+i*EntryBytes, uint64(MakePTE(TargetVRAM, frames+i*SmallPage, i == 3)))
	}
	for i := range uint64(2) {
		vram.SetWord(table+(4+i)*EntryBytes, uint64(MakePTE(TargetSystem, o.Base+i*SmallPage, false)))
	}
	return View{MMU: m, Directory: directory}, vram.Bytes(frames, 4*SmallPage)
}

// finish does all slices of a job.
func finish(v View, j Job) (moved uint64, fault *Fault) {
	for more := true; more && fault == nil; {
		s := NewSlice(v)
		more, fault = j.Step(s)
		moved += s.Moved
	}
	return moved, fault
}

// TestFillAndCopy compares transfers of rows with a model of the memory.
func TestFillAndCopy(t *testing.T) {
	v, vram := testView(t)
	rapid.Check(t, func(t *rapid.T) {
		const window = 3 * SmallPage // what is writable in VRAM
		var model [window]byte
		if _, fault := finish(v, &Fill{Size: 1, Rows: Rows{Width: window, Height: 1}}); fault != nil {
			t.Fatalf("%+v", fault)
		}
		rows := func(half uint64) (at, width, height, pitch uint64) {
			width = 4 * rapid.Uint64Range(0, 200).Draw(t, "width")
			height = rapid.Uint64Range(1, 5).Draw(t, "height")
			pitch = width + 4*rapid.Uint64Range(0, 10).Draw(t, "gap")
			return half + 4*rapid.Uint64Range(0, (window/2-height*pitch)/4).Draw(t, "at"), width, height, pitch
		}
		at, width, height, pitch := rows(0)
		pattern := rapid.Uint32().Draw(t, "pattern")
		moved, fault := finish(v, &Fill{Dst: at, Pitch: pitch, Pattern: pattern, Size: 4, Rows: Rows{Width: width, Height: height}})
		if fault != nil || moved != width*height {
			t.Fatalf("%d bytes, %+v", moved, fault)
		}
		for r := range height {
			for c := range width {
				model[at+r*pitch+c] = byte(pattern >> (8 * (c % 4)))
			}
		}
		to := window/2 + 4*rapid.Uint64Range(0, (window/2-height*pitch)/4).Draw(t, "to")
		if _, fault := finish(v, &Copy{Dst: to, Src: at, DstPitch: pitch, SrcPitch: pitch, Rows: Rows{Width: width, Height: height}}); fault != nil {
			t.Fatalf("%+v", fault)
		}
		for r := range height {
			copy(model[to+r*pitch:][:width], model[at+r*pitch:][:width])
		}
		for i, b := range model {
			if vram[i] != b {
				t.Fatalf("byte %d is %d, not %d", i, vram[i], b)
			}
		}
	})
}

func TestFaults(t *testing.T) {
	v, vram := testView(t)
	for _, c := range []struct {
		name  string
		job   Job
		want  *Fault
		moved uint64
	}{
		{name: "copy to the bus", job: &Copy{Dst: 4 * SmallPage, Src: 0, Rows: Rows{Width: 2 * SmallPage, Height: 1}}, moved: 2 * SmallPage},
		{name: "read what is read-only", job: &Copy{Dst: 0, Src: 3 * SmallPage, Rows: Rows{Width: 8, Height: 1}}, moved: 8},
		{name: "write it", job: &Fill{Dst: 3*SmallPage - 4, Size: 4, Rows: Rows{Width: 8, Height: 1}},
			want: &Fault{Addr: 3 * SmallPage, Write: true, Mapped: true}, moved: 4},
		{name: "read beyond", job: &Copy{Dst: 0, Src: 6*SmallPage - 4, Rows: Rows{Width: 8, Height: 1}},
			want: &Fault{Addr: 6 * SmallPage}, moved: 4},
		{name: "stamp beyond", job: Stamp{VA: 1 << 39, Now: func() uint64 { return 1 }}, want: &Fault{Addr: 1 << 39, Write: true}},
		{name: "no width", job: &Copy{Dst: 1 << 39, Src: 1 << 39, Rows: Rows{Height: 1}}},
		{name: "wrong directory", job: &Fill{Size: 1, Rows: Rows{Width: 1, Height: 1}}, want: &Fault{Write: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			view := v
			if c.name == "wrong directory" {
				view.Directory = 1<<64 - 8
			}
			moved, fault := finish(view, c.job)
			require.Equal(t, c.want, fault)
			require.Equal(t, c.moved, moved)
		})
	}
	_, fault := finish(v, Stamp{VA: 8, Now: func() uint64 { return 0x0102030405060708 }})
	require.Nil(t, fault)
	require.Equal(t, []byte{8, 7, 6, 5, 4, 3, 2, 1}, vram[8:16])
}

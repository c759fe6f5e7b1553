package gpuvm

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/paging"
)

// FuzzGuest has a hostile guest make accesses, 16 bytes each, and hypercalls. Whatever it does, the
// card gets no entry that names what is not the VM's, and another VM's memory stays as it is.
func FuzzGuest(f *testing.F) {
	marks := bytes.Repeat([]byte{0xa5}, 1<<20)
	var cards []*Aggregator
	var memories [][]byte // the victims'
	for _, dynamic := range []bool{false, true} {
		a := shareCard(f, dynamic, softgpu.Config{VRAMBytes: 128 << 20})
		victim, _ := newVM(f, a, "fv", 8<<20)
		put(victim, 0, 0)
		at, _ := victim.lookup(0)
		cards, memories = append(cards, a), append(memories, a.vram.Bytes(at, uint64(len(marks))))
		copy(memories[len(memories)-1], marks)
	}
	access := func(bar byte, off uint32, v uint64) []byte {
		b := binary.LittleEndian.AppendUint32([]byte{bar, 0, 0, 0}, off)
		return binary.LittleEndian.AppendUint64(b, v)
	}
	f.Add(byte(0), access(0, hw.RegChannel, hw.Valid|atDescriptor>>12))
	f.Add(byte(1), bytes.Join([][]byte{access(9, atTables, uint64(hw.MakePTE(0, 1<<30, false))), access(8, 0, 0), access(1, hw.ControlPut, 1)}, nil))
	f.Add(byte(3), access(0, hw.RegBAR3, hw.Valid|0x1234))
	f.Add(byte(4), bytes.Join([][]byte{access(10, paging.First<<8|uint32(paging.NewDirectory), 0), access(10, paging.First<<8|uint32(paging.NewTable), 1),
		access(10, paging.First<<8|uint32(paging.Map), 1), access(10, paging.First<<8|uint32(paging.SetChannel), 0)}, nil))
	f.Add(byte(128), access(8, 0, 0))
	f.Fuzz(func(t *testing.T, mode byte, b []byte) {
		card, name := int(mode>>7), Modes[int(mode&127)%len(Modes)].Name // the highest bit: without parts
		if card == 1 && name == "nested" {
			card = 0
		}
		a := cards[card]
		vm, _ := newVM(t, a, name, hw.LargePage)
		mapAll(vm)
		mapBARs(vm, atDescriptor, 8)
		bindChannel(vm, 0, atDirectory)
		for n := 0; len(b) >= 16 && n < 48; n++ {
			hostile(vm, b[0], binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:]))
			b = b[16:]
		}
		sound(t, vm)
		vm.Close()
		require.True(t, bytes.Equal(marks, memories[card]))
		require.Zero(t, vm.tables)
	})
}

// hostile does one thing that a guest can do.
func hostile(vm *VM, what byte, off uint32, v uint64) {
	switch {
	case what < 8:
		vm.Write(int(what%4), uint64(off), uint32(v))
		vm.Read(int(what%4), uint64(off))
	case what == 8:
		flushTable(vm, atDirectory)
	case what == 9: // what else a guest writes through its apertures
		if at := uint64(off) &^ 7; vm.inVRAM(at, 8) {
			put(vm, at, v)
			vm.touched(at)
		}
	case what < 12:
		call := paging.Call{Op: paging.Op(off & 0xff), Directory: off >> 8 & 0xffff, A: v << 12, B: v}
		_ = vm.Hypercall(paging.Append(nil, call)) // it may fail
	default:
		set(vm, hw.RegChannel+hw.ChannelBytes*uint64(off%8), uint32(v))
	}
}

// sound checks all entries that the card uses for a VM.
func sound(t *testing.T, vm *VM) {
	check := func(at, size uint64, aperture bool) {
		e := hw.PTE(vm.agg.vram.Word(at))
		switch {
		case e == 0:
		case !e.OK(size):
			t.Fatalf("entry 0x%x", e)
		case e.Target() == hw.TargetVRAM && !owns(vm, e.Addr(), size):
			t.Fatalf("entry 0x%x names VRAM that is not the VM's", e)
		case e.Target() != hw.TargetVRAM && (aperture || e.Addr() < vm.ram || e.Addr()+size > vm.ram+hw.LargePage):
			t.Fatalf("entry 0x%x names memory that is not the VM's", e)
		}
	}
	pair := func(at, from, end uint64, aperture bool) {
		for off := from; off < end; off += hw.SmallPage {
			check(entryAt(at, off, hw.SmallPage), hw.SmallPage, aperture)
			if off%hw.LargePage == 0 {
				check(entryAt(at, off, hw.LargePage), hw.LargePage, aperture)
			}
		}
	}
	used := slices.Collect(maps.Values(vm.shadows))
	for _, s := range slices.AppendSeq(used, maps.Values(vm.directories)) {
		for _, at := range s.tables {
			pair(at, 0, hw.DirectorySpan, false)
		}
	}
	if vm.second != nil {
		for _, at := range vm.second.tables {
			pair(at, 0, hw.DirectorySpan, true)
		}
	}
	for _, b := range []*bar{&vm.bar1, &vm.bar3} {
		for off := uint64(0); off < b.host.window; off += hw.SmallPage {
			check(b.host.entry(b.at+off, hw.SmallPage), hw.SmallPage, true)
			if off%hw.LargePage == 0 {
				check(b.host.entry(b.at+off, hw.LargePage), hw.LargePage, true)
			}
		}
	}
}

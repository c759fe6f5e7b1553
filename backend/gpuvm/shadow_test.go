package gpuvm

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
)

// specification is what the card may use for a page, by the guest's tables: written apart from
// package hw and from the Aggregator, from the format's description.
type specification struct {
	vram    func() []byte            // the guest's
	size    uint64                   // of it
	place   func(addr uint64) uint64 // on the card
	ramFrom uint64
	ramEnd  uint64
}

func (s specification) read(addr uint64) uint64 {
	if addr%8 != 0 || addr+8 < addr || addr+8 > s.size {
		return 0
	}
	return binary.LittleEndian.Uint64(s.vram()[addr:])
}

// mapping is a page: where it lies on the card, 0 for nowhere. System memory has bit 63 set.
type mapping struct {
	addr     uint64
	mapped   bool
	readOnly bool
}

// page translates an address.
func (s specification) page(directory, va uint64) mapping {
	pde := s.read(directory + va>>27<<3)
	if pde&0x0000000e_0000000e != 0 {
		return mapping{}
	}
	if pde&1 != 0 {
		if m, is := s.entry(s.read((pde&0xfffffff0)<<8+(va>>21&63)<<3), 21); is {
			if m.mapped {
				m.addr += va & (1<<21 - 1) &^ 0xfff
			}
			return m
		}
	}
	if pde>>32&1 != 0 {
		m, _ := s.entry(s.read((pde>>32&0xfffffff0)<<8+(va>>12&0x7fff)<<3), 12)
		return m
	}
	return mapping{}
}

// entry reads an entry for a page of 1<<shift bytes, and reports whether there is one, allowed or not.
func (s specification) entry(e uint64, shift uint) (m mapping, is bool) {
	const reserved = ^uint64(1 | 1<<2 | 0xfffffff0 | 3<<33)
	target := e >> 33 & 3
	addr := e & 0xfffffff0 << 8
	if e&1 == 0 || e&reserved != 0 || target == 1 || addr&(1<<shift-1) != 0 {
		return mapping{}, false
	}
	end := addr + 1<<shift
	m = mapping{mapped: true, readOnly: e&4 != 0}
	switch {
	case target == 0 && end <= s.size:
		m.addr = s.place(addr)
		return m, true
	case target != 0 && addr >= s.ramFrom && end <= s.ramEnd:
		m.addr = 1<<63 | addr
		return m, true
	}
	return mapping{}, true
}

// TestShadow edits a guest's tables at random. After each flush, or with lazy shadowing each
// activation, the shadow says for every page what the specification says.
func TestShadow(t *testing.T) {
	for _, name := range []string{"fv", "fv-lazy", "fv/dynamic", "fv-lazy/dynamic"} {
		t.Run(name, func(t *testing.T) {
			name, dynamic := strings.CutSuffix(name, "/dynamic")
			a := shareCard(t, dynamic, softgpu.Config{VRAMBytes: 128 << 20})
			other, _ := newVM(t, a, name, hw.LargePage)
			vm, ram := newVM(t, a, name, 8<<20)
			s := specification{vram: seen(vm), size: vm.size, place: func(addr uint64) uint64 { return vm.base + addr }, ramFrom: vm.ram, ramEnd: vm.ram + uint64(len(ram))}
			if dynamic {
				put(other, 0, 1)
				s.place = placed(t, vm)
			}
			r := rand.New(rand.NewPCG(1, 2))
			bindChannel(vm, 3, atDirectory)
			activate(vm, 3)
			rounds := 40
			if testing.Short() {
				rounds = 10
			}
			for range rounds {
				for range r.IntN(300) {
					edit(vm, r)
				}
				if r.IntN(4) == 0 && !vm.mode.Lazy { // who has not flushed may see the old ones
					before := vm.Counters().Scans
					activate(vm, 3)
					require.Equal(t, before, vm.Counters().Scans)
				}
				flushTable(vm, atDirectory)
				if vm.mode.Lazy {
					activate(vm, 3)
				}
				compare(t, vm, s)
			}
		})
	}
}

// seen returns what shows the guest's VRAM, a copy of which is made when it may have changed.
func seen(vm *VM) func() []byte {
	if vm.frames == nil {
		return func() []byte { return vm.agg.vram.Bytes(vm.base, vm.size) }
	}
	var copied []byte
	var at Counters
	return func() []byte {
		if n := vm.Counters(); copied == nil || n != at {
			copied, at = dump(vm), n
		}
		return copied
	}
}

// placed is where the pages of a VM are: in frames of 2 MiB of which each is one page's for good, lies
// behind the reserved area and in the card, and is no other VM's.
func placed(t *testing.T, vm *VM) func(addr uint64) uint64 {
	frames := map[uint64]uint64{}
	return func(addr uint64) uint64 {
		page := addr >> 21
		at := vm.frames[page]
		if before, ok := frames[page]; ok {
			require.Equal(t, before, at, "a frame moved")
			return at + addr&(1<<21-1)
		}
		if at == 0 { // what was not met yet may be nowhere
			return 0
		}
		require.True(t, at%(1<<21) == 0 && at >= vm.agg.start && at+1<<21 <= vm.agg.vram.Size(), "frame 0x%x", at)
		for other, frame := range frames {
			require.NotEqual(t, frame, at, "of pages %d and %d", other, page)
		}
		frames[page] = at
		return at + addr&(1<<21-1)
	}
}

// edit changes something in the guest's directory or in one of two pairs of tables.
func edit(vm *VM, r *rand.Rand) {
	pairs := []uint64{atTables, atSecond}
	if r.IntN(10) == 0 {
		pair := pairs[r.IntN(2)]
		entry := uint64(hw.MakePDE(pair+hw.SmallTable, pair))
		switch r.IntN(7) {
		case 0:
			entry = 0
		case 1:
			entry &= 0xffffffff // no small table
		case 2:
			entry &^= 0xffffffff
		case 3:
			entry |= 1 << (1 + r.IntN(3)) // reserved
		case 4:
			entry = uint64(hw.MakePDE(vm.size-hw.SmallPage, vm.size-2*hw.SmallPage)) // beyond the end
		case 5:
			entry = uint64(hw.MakePDE(vm.size, 1<<39))
		}
		put(vm, atDirectory+[]uint64{0, 1, 77, 8191}[r.IntN(4)]*8, entry)
		return
	}
	size, count := uint64(hw.SmallPage), uint64(32768)
	if r.IntN(3) == 0 {
		size, count = hw.LargePage, 64
	}
	n := r.Uint64N(count)
	if r.IntN(2) == 0 {
		n %= 600 // so that large and small pages meet
	}
	put(vm, entryAt(pairs[r.IntN(2)], n%count*size, size), hostileEntry(vm, r, size))
}

// hostileEntry makes an entry that is right, or nearly.
func hostileEntry(vm *VM, r *rand.Rand, size uint64) uint64 {
	addr := []uint64{0, vm.size - size, vm.size, vm.size - hw.SmallPage, vm.agg.start, vm.base, vm.ram, vm.ram + 8<<20 - size,
		vm.ram + 8<<20, 1<<40 - size, r.Uint64N(vm.size) &^ (size - 1), vm.ram + r.Uint64N(8<<20)&^(size-1)}[r.IntN(12)]
	e := uint64(hw.MakePTE([]hw.Target{0, 0, 2, 3, 1}[r.IntN(5)], addr, r.IntN(4) == 0))
	switch r.IntN(12) {
	case 0:
		e &^= 1
	case 1:
		e ^= 1 << r.IntN(64)
	case 2:
		e = r.Uint64()
	}
	return e
}

// compare looks at every page of the address space, by the entries of the directory that either has.
func compare(t *testing.T, vm *VM, s specification) {
	shadow := vm.shadows[atDirectory]
	require.NotNil(t, shadow)
	v := vm.agg.vram
	for i := range uint64(8192) {
		if v.Word(shadow.directory+8*i) == 0 && s.read(atDirectory+8*i) == 0 {
			continue
		}
		for va := i << 27; va < (i+1)<<27; va += hw.SmallPage {
			var got mapping
			if e, size, _ := v.Walk(shadow.directory, va); size != 0 {
				got = mapping{addr: e.Addr() + va%size, mapped: true, readOnly: e.ReadOnly()}
				if e.Target() != hw.TargetVRAM {
					got.addr |= 1 << 63
				}
			}
			if want := s.page(atDirectory, va); got != want {
				t.Fatalf("0x%x: the shadow has %+v, the guest's table %+v", va, got, want)
			}
		}
	}
}

// Several channels share the shadow of a directory, which is scanned once for all of them.
func TestShared(t *testing.T) {
	a := newAggregator(t, 1, softgpu.Config{VRAMBytes: 128 << 20})
	vm, _ := newVM(t, a, "fv-lazy", 8<<20)
	used := a.reserved.Used()
	mapAll(vm)
	bindChannel(vm, 0, atDirectory)
	bindChannel(vm, 1, atDirectory)
	flushTable(vm, atDirectory)
	activate(vm, 0)
	activate(vm, 1)
	require.Equal(t, uint64(1), vm.Counters().Scans)
	require.Len(t, vm.shadows, 1)
	set(vm, hw.RegKill, 0)
	require.Len(t, vm.shadows, 1)
	set(vm, hw.RegChannel+hw.ChannelBytes, 0)
	require.Empty(t, vm.shadows)
	require.Zero(t, vm.tables)
	require.Equal(t, used, a.reserved.Used())
	flushTable(vm, atDirectory)
	require.Equal(t, uint64(1), vm.Counters().Scans, "no channel uses it")
}

// A descriptor that changes while its channel is bound takes effect, on all three ways to write it.
func TestBarrier(t *testing.T) {
	for _, name := range []string{"fv", "fv-remap", "fv-bar1"} {
		a := newAggregator(t, 1, softgpu.Config{VRAMBytes: 128 << 20})
		vm, _ := newVM(t, a, name, 8<<20)
		mapBARs(vm, atDescriptor, 4) // the descriptors of channels 0 to 3
		bindChannel(vm, 2, atDirectory)
		offset := uint64(2*hw.DescBytes + hw.DescDirectory)
		set(vm, hw.RegWindow, 1)
		before := vm.Counters()
		for i, write := range []func(v uint32){
			func(v uint32) { vm.Write(hw.BAR3, offset, v) },
			func(v uint32) { vm.Write(hw.BAR1, 1<<20+offset, v) },
			func(v uint32) { vm.Write(hw.BAR0, hw.WindowBase+atDescriptor-1<<16+offset, v) },
		} {
			want := uint64(atDirectory + (i+1)*hw.DirectoryBytes)
			write(uint32(want))
			require.NotNil(t, vm.shadows[want], i)
			require.Len(t, vm.shadows, 1)
			require.Equal(t, vm.shadows[want].directory, a.vram.Word(vm.channels[2].descriptor+hw.DescDirectory))
		}
		n := vm.Counters().Sub(before)
		require.Equal(t, uint64(1), n.TrapsBAR3)
		vm.Write(hw.BAR3, 0, 5) // of a channel that is not bound
		want := uint64(1)
		if vm.mode.Remap {
			want = 0
		}
		require.Equal(t, want, vm.Counters().Sub(before).Sub(n).TrapsBAR3)
		set(vm, hw.RegChannel+2*hw.ChannelBytes, 0)
		vm.Write(hw.BAR3, offset, 5)
		require.Equal(t, 2*want, vm.Counters().Sub(before).Sub(n).TrapsBAR3, "the page is no descriptor any more")
	}
}

package gpuvm

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/paging"
)

// What is not a VM's cannot be named in registers.
func TestForeignChannels(t *testing.T) {
	a := newAggregator(t, 2, softgpu.Config{VRAMBytes: 128 << 20})
	victim, _ := newVM(t, a, "fv", 8<<20)
	vm, _ := newVM(t, a, "fv", 8<<20)
	bindChannel(victim, 0, atDirectory)
	count := uint32(len(vm.channels))
	state := func() uint32 { return victim.Read(hw.BAR0, hw.RegState) }
	before := state()
	require.Equal(t, uint32(hw.StateBound|hw.StateRuns), before)
	for _, number := range []uint32{count, count + 1, -count, 1<<32 - 1, hw.MaxChannels} {
		set(vm, hw.RegKill, number)
		set(vm, hw.RegChannel+hw.ChannelBytes*uint64(number), 0)
		put(vm, atRunList, uint64(number))
		put(vm, atRunList+8, 1<<63)
		set(vm, hw.RegRunList, atRunList>>12)
		set(vm, hw.RegRunListUpdate, 2)
		require.Equal(t, before, state(), number)
		if number < 2*hw.MaxChannels { // else it lies behind BAR0
			require.Zero(t, vm.Read(hw.BAR0, hw.RegState+hw.ChannelBytes*uint64(number)))
		}
	}
	set(vm, hw.RegRunListUpdate, 1<<32-1)
	require.Equal(t, before, state())
	set(vm, hw.RegControl, hw.ControlValid)
	vm.Write(hw.BAR1, uint64(count)*hw.ControlBytes+hw.ControlPut, 5) // behind its control area: memory, of which there is none
	require.Equal(t, before, state())
	require.Equal(t, uint32(len(vm.channels)), vm.Read(hw.BAR0, hw.RegCount))
	require.Equal(t, uint32(vm.size>>20), vm.Read(hw.BAR0, hw.RegVRAM))
	require.Zero(t, vm.Read(hw.BAR0, 0x123450))
	for _, at := range []struct {
		bar int
		off uint64
	}{{0, 2}, {1, vm.Size(1)}, {3, vm.Size(3)}, {2, 0}, {-1, 0}, {3, 1<<64 - 4}, {3, 5}} {
		refused := vm.Counters().Refused
		require.Equal(t, ^uint32(0), vm.Read(at.bar, at.off))
		vm.Write(at.bar, at.off, 1)
		require.Equal(t, refused+2, vm.Counters().Refused, "%+v", at)
	}
	for _, window := range []uint32{uint32(vm.size >> hw.WindowShift), 1<<28 - 1} {
		set(vm, hw.RegWindow, window)
		vm.Write(hw.BAR0, hw.WindowBase, 1)
		require.Equal(t, ^uint32(0), vm.Read(hw.BAR0, hw.WindowBase))
	}
	set(vm, hw.RegChannel, hw.Valid|uint32(vm.size>>12)) // a descriptor in the other one's VRAM, or in no guest's
	require.Zero(t, vm.Read(hw.BAR0, hw.RegState)&hw.StateBound)
}

// The figures of docs/gpuvm.md.
func TestParts(t *testing.T) {
	a := newAggregator(t, 2, softgpu.Config{})
	require.Equal(t, uint64(494<<20), a.part)
	require.Equal(t, 64, a.channels)
	require.Equal(t, 6<<30, maxTables*hw.DirectorySpan)
}

// Hypercalls write nothing that maps what is not the VM's, and take no wrong operation.
func TestHypercalls(t *testing.T) {
	a := newAggregator(t, 2, softgpu.Config{VRAMBytes: 128 << 20})
	used := a.reserved.Used()
	newVM(t, a, "fv", 8<<20)
	vm, ram := newVM(t, a, "pv", 8<<20)
	call := func(op paging.Op, directory uint32, x, y uint64) error {
		return vm.Hypercall(paging.Append(nil, paging.Call{Op: op, Directory: directory, A: x, B: y}))
	}
	const id = paging.First
	require.NoError(t, call(paging.NewDirectory, id, 0, 0))
	require.NoError(t, call(paging.NewTable, id, 1, 0))
	directory := vm.directories[id].directory
	entry := func(t hw.Target, addr uint64) uint64 { return uint64(hw.MakePTE(t, addr, false)) }
	require.NoError(t, call(paging.Map, id, channelVA, entry(hw.TargetVRAM, 0x5000)))
	e, _, _ := a.vram.Walk(directory, channelVA)
	require.Equal(t, vm.base+0x5000, e.Addr())
	for name, c := range map[string]paging.Call{
		"beyond the VRAM":           {Op: paging.Map, Directory: id, A: channelVA, B: entry(hw.TargetVRAM, vm.size)},
		"half beyond the VRAM":      {Op: paging.Map, Directory: id, A: channelVA | paging.Large, B: entry(hw.TargetVRAM, vm.size)},
		"memory of others":          {Op: paging.Map, Directory: id, A: channelVA, B: entry(hw.TargetSystem, vm.ram+uint64(len(ram)))},
		"target 1":                  {Op: paging.Map, Directory: id, A: channelVA, B: entry(1, 0)},
		"a reserved bit":            {Op: paging.Map, Directory: id, A: channelVA, B: entry(hw.TargetVRAM, 0) | 2},
		"not valid":                 {Op: paging.Map, Directory: id, A: channelVA, B: entry(hw.TargetVRAM, 0x5000) &^ 1},
		"not aligned":               {Op: paging.Map, Directory: id, A: channelVA + 8, B: entry(hw.TargetVRAM, 0)},
		"no tables":                 {Op: paging.Map, Directory: id, A: 0, B: entry(hw.TargetVRAM, 0)},
		"beyond all":                {Op: paging.Map, Directory: id, A: 1 << 60, B: entry(hw.TargetVRAM, 0)},
		"beyond BAR3":               {Op: paging.Map, Directory: paging.BAR3, A: vm.Size(hw.BAR3), B: entry(hw.TargetVRAM, 0)},
		"system memory in BAR3":     {Op: paging.Map, Directory: paging.BAR3, A: 0, B: entry(hw.TargetSystem, vm.ram)},
		"a table of BAR3":           {Op: paging.NewTable, Directory: paging.BAR3, A: 0},
		"BAR3 for a channel":        {Op: paging.SetChannel, Directory: paging.BAR3, A: 0},
		"a table that exists":       {Op: paging.NewTable, Directory: id, A: 1},
		"a table beyond":            {Op: paging.NewTable, Directory: id, A: 8192},
		"a foreign channel":         {Op: paging.SetChannel, Directory: id, A: uint64(len(vm.channels))},
		"a directory that exists":   {Op: paging.NewDirectory, Directory: id},
		"a number that is too low":  {Op: paging.NewDirectory, Directory: paging.First - 1},
		"a number that is too high": {Op: paging.NewDirectory, Directory: paging.Last + 1},
		"no such directory":         {Op: paging.Flush, Directory: id + 1},
		"no such operation":         {Op: 99, Directory: id},
		"operation 0":               {},
	} {
		require.Error(t, call(c.Op, c.Directory, c.A, c.B), name)
		e, _, _ = a.vram.Walk(directory, channelVA)
		require.Equal(t, vm.base+0x5000, e.Addr(), name)
	}
	require.Error(t, vm.Hypercall(nil))
	require.Error(t, vm.Hypercall(make([]byte, paging.OpBytes-1)))
	require.Error(t, vm.Hypercall(make([]byte, paging.OpBytes*(paging.MaxOps+1))))

	require.NoError(t, call(paging.SetChannel, id, 0, 0))
	bindChannel(vm, 0, atDirectory)
	require.Equal(t, directory, a.vram.Word(vm.channels[0].descriptor+hw.DescDirectory), "not what the guest's descriptor says")
	require.Error(t, call(paging.FreeDirectory, id, 0, 0), "a channel uses it")
	set(vm, hw.RegKill, 0)
	require.NoError(t, call(paging.FreeDirectory, id, 0, 0))
	var full error
	for i := uint32(0); full == nil; i++ {
		full = call(paging.NewDirectory, id+i, 0, 0)
		require.LessOrEqual(t, i, uint32(len(vm.channels)))
	}
	full = nil
	for i := uint64(0); full == nil; i++ {
		full = call(paging.NewTable, id, i, 0)
		require.LessOrEqual(t, i, uint64(maxTables))
	}
	vm.Close()
	require.Error(t, call(paging.Flush, id, 0, 0))
	require.Equal(t, used+uint64(a.channels)*hw.DescBytes, a.reserved.Used(), "the other VM's descriptors are left")
}

// actor is a VM that does random things, with a model of its memory.
type actor struct {
	*VM
	r       *rand.Rand
	model   []byte
	saved   []byte // of the tables, as they were
	put     uint64
	damaged bool // the tables are not what they were
}

const (
	actorPages  = 64 // shown in BAR1 and BAR3
	actorData   = 0x400000
	tablesFrom  = atDirectory
	tablesBytes = atBARTables + 2*hw.TableBytes - atDirectory
)

// newActor lays out the memory of a VM: a channel that reaches all of it, its tables too, and
// apertures onto a part of it.
func newActor(vm *VM, seed uint64) *actor {
	if vm.mode.PV {
		callAll(vm)
	} else {
		mapAll(vm)
		mapBARs(vm, actorData, actorPages)
	}
	bindChannel(vm, 0, atDirectory)
	flushTable(vm, atDirectory)
	a := &actor{VM: vm, r: rand.New(rand.NewPCG(seed, 1)), model: dump(vm)}
	a.saved = bytes.Clone(a.model[tablesFrom:][:tablesBytes])
	return a
}

// callAll is mapAll and mapBARs by hypercalls.
func callAll(vm *VM) {
	call := func(op paging.Op, directory uint32, x, y uint64) {
		if err := vm.Hypercall(paging.Append(nil, paging.Call{Op: op, Directory: directory, A: x, B: y})); err != nil {
			panic(err)
		}
	}
	call(paging.NewDirectory, paging.First, 0, 0)
	call(paging.NewTable, paging.First, channelVA/hw.DirectorySpan, 0)
	for at := uint64(0); at < vm.size; at += hw.LargePage {
		call(paging.Map, paging.First, (channelVA+at)|paging.Large, uint64(hw.MakePTE(hw.TargetVRAM, at, false)))
	}
	for i := range uint64(actorPages) {
		page := uint64(hw.MakePTE(hw.TargetVRAM, actorData+i*hw.SmallPage, false))
		call(paging.Map, paging.BAR3, i*hw.SmallPage, page)
		call(paging.Map, paging.BAR1, 1<<20+i*hw.SmallPage, page)
	}
	for _, directory := range []uint32{paging.First, paging.BAR1, paging.BAR3} {
		call(paging.Flush, directory, 0, 0)
	}
	call(paging.SetChannel, paging.First, 0, 0)
}

// hypercall makes one that may be wrong. One that is not maps what it should only where nothing of the
// actor's lies.
func (a *actor) hypercall() {
	size := uint64(hw.SmallPage)
	c := paging.Call{Op: paging.Map, Directory: []uint32{paging.First, paging.BAR1, paging.BAR3, paging.First + 1}[a.r.IntN(4)],
		A: a.r.Uint64N(1<<27) &^ (size - 1), B: hostileEntry(a.VM, a.r, size)}
	switch c.Directory { // where no write of act goes
	case paging.BAR1:
		c.A = 1<<20 + actorPages*size + c.A%(actorPages*size)
	case paging.BAR3:
		c.A = actorPages*size + c.A%(actorPages*size)
	}
	switch a.r.IntN(8) {
	case 0:
		c = paging.Call{Op: paging.NewTable, Directory: paging.First, A: []uint64{0, 1, 2, 8191, 8192, a.r.Uint64()}[a.r.IntN(6)]}
	case 1:
		c = paging.Call{Op: paging.SetChannel, Directory: paging.First, A: uint64(len(a.channels)) + a.r.Uint64N(100)}
	case 2:
		c = paging.Call{Op: paging.FreeDirectory, Directory: paging.First} // a channel uses it
	case 3:
		c = paging.Call{Op: paging.Flush, Directory: c.Directory}
	}
	_ = a.Hypercall(paging.Append(nil, c)) // most are wrong
}

// store writes the model.
func (a *actor) store(addr uint64, v uint32) { binary.LittleEndian.PutUint32(a.model[addr:], v) }

// window writes a word through the window.
func (a *actor) window(addr uint64, v uint32) {
	set(a.VM, hw.RegWindow, uint32(addr>>hw.WindowShift))
	a.Write(hw.BAR0, hw.WindowBase+addr&0xffff, v)
	a.store(addr, v)
}

// act does one thing.
func (a *actor) act() {
	v := a.r.Uint32()
	switch n := a.r.IntN(100); {
	case n < 40: // the window, onto anything but what the channel fetches and the descriptors
		addr := actorData + a.r.Uint64N(a.size-actorData)&^3
		if a.r.IntN(8) == 0 {
			addr, a.damaged = tablesFrom+a.r.Uint64N(tablesBytes)&^3, true
		}
		a.window(addr, v)
	case n < 60:
		off := a.r.Uint64N(actorPages*hw.SmallPage) &^ 3
		a.Write(hw.BAR3, off, v)
		a.store(actorData+off, v)
	case n < 80:
		off := a.r.Uint64N(actorPages*hw.SmallPage) &^ 3
		a.Write(hw.BAR1, 1<<20+off, v)
		a.store(actorData+off, v)
	case n < 83: // beyond what is mapped, or wrong
		a.Write([]int{-1, hw.BAR1, 2, hw.BAR3}[a.r.IntN(4)], a.r.Uint64()>>a.r.IntN(64)|actorPages<<13, v)
		a.Write(hw.BAR3, a.Size(hw.BAR3)-4-a.r.Uint64N(1<<20)&^3, v)
	case n < 86: // registers of channels that it has not
		i := uint64(len(a.channels)) + a.r.Uint64N(200)
		a.Write(hw.BAR0, hw.RegChannel+hw.ChannelBytes*i, v)
		set(a.VM, hw.RegKill, v|uint32(len(a.channels)))
	case n < 88:
		a.fill(v)
	case a.mode.PV && n < 94:
		a.hypercall()
	case n < 90:
		a.restore()
		flushTable(a.VM, atDirectory)
	}
}

// fill has the GPU write somewhere, at times on the tables that map it.
func (a *actor) fill(v uint32) {
	if a.mode.Lazy || a.mode.Nested {
		a.restore() // the doorbell scans what a flush before left dirty, or the card walks it
	}
	addr, words := actorData+a.r.Uint64N(a.size-actorData-1<<16)&^3, a.r.Uint64N(1000)+1
	if a.r.IntN(4) == 0 {
		addr, a.damaged = tablesFrom+a.r.Uint64N(tablesBytes-4000)&^3, true
	}
	b := []uint32{hw.OpFill | 10<<16, uint32(channelVA + addr), 0, 0, 0, uint32(4 * words), 0, 1, 0, v, 4}
	for i, w := range b {
		a.window(uint64(atCommands+4*i), w)
	}
	entry := uint64(channelVA+atCommands) | uint64(len(b))<<hw.IndirectShift
	a.window(atIndirect+8*a.put, uint32(entry))
	a.window(atIndirect+8*a.put+4, uint32(entry>>32))
	a.put = (a.put + 1) % 8
	a.Write(hw.BAR1, hw.ControlPut, uint32(a.put))
	for s := a.Read(hw.BAR0, hw.RegState); s&hw.StateBusy != 0 && s != ^uint32(0); s = a.Read(hw.BAR0, hw.RegState) {
		time.Sleep(10 * time.Microsecond)
	}
	a.store(atControl+hw.ControlPut, uint32(a.put))
	a.store(atControl+hw.ControlGet, uint32(a.put))
	for i := range words {
		a.store(addr+4*i, v)
	}
}

// restore writes the tables as they were, through the window.
func (a *actor) restore() {
	if !a.damaged {
		return
	}
	a.damaged = false
	for i := uint64(0); i < tablesBytes; i += 4 {
		want, addr := binary.LittleEndian.Uint32(a.saved[i:]), tablesFrom+i
		if binary.LittleEndian.Uint32(a.model[addr:]) == want {
			continue
		}
		a.window(addr, want)
	}
}

// Two VMs do random things at the same time. The memory of each is what its model says, so that
// neither reached the other, and what lies in front of both is what the Aggregator wrote there.
func TestTwoVMs(t *testing.T) {
	for _, name := range []string{"fv", "fv-remap", "fv-opt", "fv-bar1", "pv", "pv-bar1", "nested", "fv/dynamic", "fv-opt/dynamic", "pv/dynamic"} {
		t.Run(name, func(t *testing.T) {
			name, dynamic := strings.CutSuffix(name, "/dynamic")
			a := shareCard(t, dynamic, softgpu.Config{VRAMBytes: 128 << 20})
			var actors []*actor
			for i := range uint64(2) {
				vm, _ := newVM(t, a, name, 8<<20)
				actors = append(actors, newActor(vm, i))
			}
			ops := 100_000
			if testing.Short() {
				ops = 10_000
			}
			if raceDetector {
				ops /= 20
			}
			var all sync.WaitGroup
			for _, x := range actors {
				all.Go(func() {
					for range ops {
						x.act()
					}
				})
			}
			all.Wait()
			for i, x := range actors {
				require.Zero(t, x.Read(hw.BAR0, hw.RegState)&hw.StateFaulty)
				got := dump(x.VM)
				if !bytes.Equal(x.model, got) {
					for at := range got {
						require.Equal(t, x.model[at], got[at], "VM %d, 0x%x", i, at)
					}
				}
			}
		})
	}
}

// An access that does not trap ends before the VM's part of the card goes to the next.
func TestCloseWaitsForAccesses(t *testing.T) {
	a := newAggregator(t, 1, softgpu.Config{VRAMBytes: 64 << 20})
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for range rounds {
		vm, _ := newVM(t, a, "fv-opt", 8<<20)
		newActor(vm, 1)
		require.False(t, vm.Traps(hw.BAR3, 0))
		var writers sync.WaitGroup
		stop := make(chan struct{})
		for i := range uint64(4) {
			writers.Go(func() {
				for off := i * 4; ; off = (off + 4096 + 4) % (actorPages * hw.SmallPage) {
					select {
					case <-stop:
						return
					default:
						vm.Write(hw.BAR3, off, ^uint32(0))
					}
				}
			})
		}
		time.Sleep(time.Millisecond)
		vm.Close()
		close(stop)
		writers.Wait()
		require.True(t, bytes.Equal(make([]byte, vm.size), a.vram.Bytes(vm.base, vm.size)))
	}
}

// A VM that is killed at any moment leaves zeroes to the next, and takes nothing with it.
func TestKill(t *testing.T) {
	for _, dynamic := range []bool{false, true} {
		killed(t, dynamic)
	}
}

// zero reports whether the card has nothing in the VRAM behind the reserved area but what is a VM's.
func zero(a *Aggregator, but *VM) bool {
	none := make([]byte, frameBytes)
	for at := align(a.start, frameBytes); at+frameBytes <= a.vram.Size(); at += frameBytes {
		if !owns(but, at, frameBytes) && !bytes.Equal(none, a.vram.Bytes(at, frameBytes)) {
			return false
		}
	}
	return true
}

func killed(t *testing.T, dynamic bool) {
	a := shareCard(t, dynamic, softgpu.Config{VRAMBytes: 128 << 20})
	keeper, _ := newVM(t, a, "fv-opt", 8<<20)
	kept := newActor(keeper, 9)
	activate(keeper, 0)
	used := a.reserved.Used()
	rounds, acts := 2*len(Modes), 500
	if testing.Short() {
		rounds, acts = len(Modes), 150
	}
	for i := range rounds {
		if dynamic && Modes[i%len(Modes)].Nested {
			continue
		}
		require.True(t, zero(a, keeper))
		vm, _ := newVM(t, a, Modes[i%len(Modes)].Name, 8<<20)
		x := newActor(vm, uint64(i))
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				default:
					x.act()
				}
			}
		}()
		for range acts {
			kept.act()
		}
		vm.Close()
		close(stop)
		<-ended
		require.Equal(t, used, a.reserved.Used())
		require.True(t, zero(a, keeper))
		require.Equal(t, ^uint32(0), vm.Read(hw.BAR3, 0))
	}
	require.True(t, bytes.Equal(kept.model, dump(keeper)))
	_, err := a.NewVM(Modes[0], nil)
	require.Error(t, err)
}

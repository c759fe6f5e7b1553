package gpuvm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/lowlevel"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/paging"
	"pvdrm/internal/suite"
)

// spy counts what the guest does, and from that alone what the Aggregator is to do.
type spy struct {
	*VM
	accesses  map[int]uint64  // by BAR
	apertures map[uint32]bool // RegFlushTable of BAR1's and BAR3's directories
	flushed   uint32
	controls  uint64 // accesses of control pages
	ofBARs    uint64 // flushes
	ofOthers  uint64
	dirty     bool   // since the last doorbell there was one of others, or a channel was bound
	toScan    uint64 // doorbells while dirty
	ops       uint64
	calls     uint64
	loose     int // calls that end with no flush and are not full
}

func (s *spy) Read(bar int, off uint64) uint32 {
	s.accesses[bar]++
	return s.VM.Read(bar, off)
}

func (s *spy) Write(bar int, off uint64, v uint32) {
	s.accesses[bar]++
	if bar == hw.BAR1 && off < uint64(len(s.channels))*hw.ControlBytes {
		s.controls++
	}
	s.VM.Write(bar, off, v)
	switch {
	case bar == hw.BAR0 && (off == hw.RegBAR1 || off == hw.RegBAR3):
		descriptor := uint64(v&hw.AddressField) << 12
		s.apertures[uint32(s.word(descriptor+hw.DescDirectory)>>hw.DirectoryUnit)] = true
	case bar == hw.BAR0 && off == hw.RegFlushTable:
		s.flushed = v
	case bar == hw.BAR0 && off == hw.RegFlush && s.apertures[s.flushed]:
		s.ofBARs++
	case bar == hw.BAR0 && off == hw.RegFlush:
		s.ofOthers++
		s.dirty = true
	case bar == hw.BAR0 && off >= hw.RegChannel && off%hw.ChannelBytes == 0 && off < hw.RegChannel+hw.ChannelBytes*hw.MaxChannels:
		s.dirty = v != 0
	case bar == hw.BAR1 && off%hw.ControlBytes == hw.ControlPut && off < uint64(len(s.channels))*hw.ControlBytes && s.dirty:
		s.dirty = false
		s.toScan++
	}
}

func (s *spy) Hypercall(ops []byte) error {
	calls, err := paging.Decode(ops)
	if err != nil {
		return err
	}
	s.calls++
	s.ops += uint64(len(calls))
	if len(calls) < paging.MaxOps && calls[len(calls)-1].Op != paging.Flush {
		s.loose++
	}
	return s.VM.Hypercall(ops)
}

// TestSuite runs the programs in each mode. The counters have exactly the values that what the
// guest did demands.
func TestSuite(t *testing.T) {
	for _, mode := range Modes {
		t.Run(mode.Name, func(t *testing.T) {
			a := newAggregator(t, 2, softgpu.Config{})
			newVM(t, a, mode.Name, hw.LargePage) // so that the other one's addresses are shifted
			vm, ram := newVM(t, a, mode.Name, 512<<20)
			s := &spy{VM: vm, accesses: map[int]uint64{}, apertures: map[uint32]bool{}}
			config := lowlevel.Config{Bus: s, RAM: ram, Base: vm.Base(), Multi: mode.Multi}
			if mode.PV {
				config.Calls = s
			}
			d, err := lowlevel.Open(config)
			require.NoError(t, err)
			operations := map[string]uint64{}
			for _, b := range suite.All() {
				if testing.Short() && (b.Name == "bfs" || b.Name == "srad" || b.Name == "long-madd") ||
					raceDetector && b.Name != "nop" && b.Name != "loop" && b.Name != "pincpy" ||
					testing.Short() && b.Name == "pincpy" && !mode.PV && mode.Name != "fv-opt" {
					continue
				}
				before := vm.Counters()
				*s = spy{VM: vm, accesses: map[int]uint64{}, apertures: s.apertures, flushed: s.flushed}
				r, err := suite.RunRaw(b.Name, func() (suite.RawDevice, error) { return d.NewContext() }, suite.Options{})
				require.NoError(t, err)
				require.True(t, r.Verified, "%s: %s", b.Name, r.Error)
				n := vm.Counters().Sub(before)
				t.Logf("%s %+v", b.Name, n)
				checkLaws(t, b.Name, mode, s, n)
				operations[b.Name] = n.Operations
			}
			if mode.PV {
				require.GreaterOrEqual(t, operations["pincpy"]-operations["nop"], uint64(2*64<<20/hw.SmallPage))
			}
			require.NoError(t, d.Close())
		})
	}
}

// checkLaws compares the counters of a program with what the guest did.
func checkLaws(t *testing.T, name string, mode Mode, s *spy, n Counters) {
	require.Zero(t, n.Refused, name)
	require.Equal(t, s.accesses[hw.BAR0], n.TrapsBAR0, name)
	if mode.BAR1 {
		require.Equal(t, s.controls, n.TrapsBAR1, name)
		require.True(t, name != "loop" || s.accesses[hw.BAR1] >= s.controls+2048, "its copies do not trap")
	} else {
		require.Equal(t, s.accesses[hw.BAR1], n.TrapsBAR1, name)
	}
	if mode.Remap {
		require.Zero(t, n.TrapsBAR3, "%s touches no descriptor that is in use", name)
	} else {
		require.Equal(t, s.accesses[hw.BAR3], n.TrapsBAR3, name)
	}
	require.Equal(t, s.ofBARs, n.BARScans, name)
	switch {
	case mode.PV:
		require.Zero(t, n.Scans+n.Entries, name)
		require.Equal(t, s.calls, n.Hypercalls, name)
		require.Equal(t, s.ops, n.Operations, name)
		require.True(t, mode.Multi || s.calls == s.ops, name)
		require.True(t, !mode.Multi || s.loose == 0, "%s: a call ends with a flush or is full", name)
		if mode.Multi && name == "pincpy" {
			require.LessOrEqual(t, 64*n.Hypercalls, n.Operations)
		}
		return
	case mode.Nested:
		require.Zero(t, n.Scans, name)
	case mode.Lazy:
		require.Equal(t, s.toScan, n.Scans, name)
		require.LessOrEqual(t, n.Scans, uint64(10), name)
		require.LessOrEqual(t, 4*n.Scans, s.ofOthers, "%s: a quarter of the naive scans", name)
	default:
		require.Equal(t, s.ofOthers, n.Scans, name)
	}
	require.Zero(t, n.Hypercalls, name)
	require.Equal(t, s.ofBARs+s.ofOthers, n.Flushes, name)
}

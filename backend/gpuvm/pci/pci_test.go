package pci_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/carrier/vfiouser"
	"pvdrm/backend/carrier/vfiouser/vfiotest"
	"pvdrm/backend/gpuvm"
	"pvdrm/backend/gpuvm/pci"
	"pvdrm/backend/gpuvm/serve"
	"pvdrm/frontend/lowlevel"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/trap"
	"pvdrm/internal/hostmem"
	"pvdrm/internal/suite"
	"pvdrm/internal/unixsock"
)

// machine is a virtual machine with a card in a slot, as far as its driver sees one: it maps BARs where
// the server lets it, and asks the server for all other accesses.
type machine struct {
	t      *testing.T
	client *vfiotest.Client
	conn   *net.UnixConn
	ended  chan error
	ram    *hostmem.Region
	bars   map[int][]byte
	box    *trap.Mailbox
	terms  trap.Terms
	traps  map[int]uint64
}

// Where the machine's memory is: pages of 2 MiB, in reverse.
const (
	ramBytes = 64 << 20
	ramBase  = 4 << 30
)

// frames are what a driver finds out of a machine's memory.
func frames() (f []uint64) {
	for i := range uint64(ramBytes / hw.LargePage) {
		f = append(f, ramBase+ramBytes-(i+1)*hw.LargePage)
	}
	return f
}

// boot puts a card of an Aggregator into a machine.
func boot(t *testing.T, a *gpuvm.Aggregator, name string) *machine {
	mode, err := gpuvm.ModeOf(name)
	require.NoError(t, err)
	d, err := pci.New(&serve.Server{Aggregator: a, Mode: mode, Log: zap.NewNop()})
	require.NoError(t, err)
	ours, theirs, err := unixsock.Pair(unix.SOCK_STREAM)
	require.NoError(t, err)
	m := &machine{t: t, bars: map[int][]byte{}, traps: map[int]uint64{}, ended: make(chan error, 1)}
	m.conn, err = unixsock.Conn(ours)
	require.NoError(t, err)
	fd, err := unix.FcntlInt(theirs.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	server, err := unixsock.Conn(fd)
	require.NoError(t, err)
	go func() { m.ended <- vfiouser.Serve(context.Background(), server, d) }()
	m.ram, err = hostmem.New(ramBytes)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = m.conn.Close()
		require.NoError(t, <-m.ended)
		d.Close()
		m.ram.Release()
	})
	m.client = vfiotest.New(m.conn)
	require.NoError(t, m.client.Negotiate())
	for bar := range 6 {
		r, err := m.client.Region(bar)
		require.NoError(t, err)
		for _, area := range r.Areas {
			m.bars[bar], err = unix.Mmap(r.File, 0, int(area[1]), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			require.NoError(t, err)
		}
		if r.File >= 0 {
			require.NoError(t, unix.Close(r.File))
		}
	}
	for i, at := range frames() {
		require.NoError(t, m.client.Map(at, hw.LargePage, uint64(i)*hw.LargePage, m.ram.FD()))
	}
	m.box, err = trap.NewMailbox(m.bars[trap.PCIBAR])
	require.NoError(t, err)
	return m
}

func (m *machine) request(r trap.Request) (trap.Answer, error) {
	m.box.Post(r)
	if err := m.client.Write(trap.PCIBAR, trap.PCIBell, []byte{1, 0, 0, 0}); err != nil {
		return trap.Answer{}, err
	}
	a := m.box.Answer()
	if a.Failed {
		return a, errors.New(string(a.Payload))
	}
	return a, nil
}

// open begins as a driver does.
func (m *machine) open() {
	a, err := m.request(trap.Request{Kind: trap.Open})
	require.NoError(m.t, err)
	m.terms, err = trap.DecodeTerms(a.Payload)
	require.NoError(m.t, err)
}

func (m *machine) Size(bar int) uint64 {
	return map[int]uint64{hw.BAR0: hw.BAR0Bytes, hw.BAR1: m.terms.BAR1, hw.BAR3: m.terms.BAR3}[bar]
}

func (m *machine) Read(bar int, off uint64) uint32 {
	if mem := m.bars[bar]; off < uint64(len(mem)) {
		return hw.LoadHalf(mem[off:][:4])
	}
	m.traps[bar]++
	var word [4]byte
	require.NoError(m.t, m.client.Read(bar, off, word[:]))
	return binary.LittleEndian.Uint32(word[:])
}

func (m *machine) Write(bar int, off uint64, v uint32) {
	if mem := m.bars[bar]; off < uint64(len(mem)) {
		hw.StoreHalf(mem[off:][:4], v)
		return
	}
	m.traps[bar]++
	require.NoError(m.t, m.client.Write(bar, off, binary.LittleEndian.AppendUint32(nil, v)))
}

func (m *machine) Hypercall(ops []byte) error {
	_, err := m.request(trap.Request{Kind: trap.Call, Payload: ops})
	return err
}

func (m *machine) counters() trap.Counters {
	a, err := m.request(trap.Request{Kind: trap.Count})
	require.NoError(m.t, err)
	c, err := trap.DecodeCounters(a.Payload)
	require.NoError(m.t, err)
	return c
}

func aggregator(t *testing.T, vms int, vram uint64) *gpuvm.Aggregator {
	c, err := card.New(softgpu.Config{VRAMBytes: vram})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	a, err := gpuvm.New(c, vms)
	require.NoError(t, err)
	return a
}

// Programs run on a card in a slot, whose accesses are traps of the machine, whose BAR3 is mapped where
// the mode lets it, and whose memory lies where the machine says. What the Aggregator counts is what
// arrived.
func TestPrograms(t *testing.T) {
	for _, name := range []string{"fv-opt", "fv-remap", "fv-lazy", "pv-multicall", "nested"} {
		t.Run(name, func(t *testing.T) {
			m := boot(t, aggregator(t, 2, 256<<20), name)
			for range 2 { // the second driver finds a card as after a reset
				m.open()
				m.traps = map[int]uint64{}
				mode, err := gpuvm.ModeOf(name)
				require.NoError(t, err)
				require.Equal(t, mode.Remap, m.bars[hw.BAR3] != nil)
				config := lowlevel.Config{Bus: m, RAM: m.ram.Bytes(), Frames: frames(), Multi: mode.Multi}
				if mode.PV {
					config.Calls = m
				}
				d, err := lowlevel.Open(config)
				require.NoError(t, err)
				for _, program := range []string{"nop", "madd"} {
					if testing.Short() && program == "madd" && name != "fv-opt" {
						continue
					}
					r, err := suite.RunRaw(program, func() (suite.RawDevice, error) { return d.NewContext() }, suite.Options{})
					require.NoError(t, err)
					require.True(t, r.Verified, "%s: %s", program, r.Error)
				}
				n := m.counters()
				require.Equal(t, []uint64{m.traps[0], m.traps[1], m.traps[3]}, []uint64{n.TrapsBAR0, n.TrapsBAR1, n.TrapsBAR3})
				require.Equal(t, mode.Remap, n.TrapsBAR3 == 0)
				require.Zero(t, n.Refused)
			} // the driver is not closed: its program was killed
		})
	}
}

// What no driver does has no effect, and is answered.
func TestHostileAccesses(t *testing.T) {
	m := boot(t, aggregator(t, 1, 128<<20), "fv")
	for range 2 {
		for _, bar := range []int{hw.BAR0, hw.BAR1, hw.BAR3} {
			for _, n := range []int{0, 1, 2, 3, 5, 16, 1024} {
				p := make([]byte, n)
				require.NoError(t, m.client.Write(bar, 0, p))
				require.NoError(t, m.client.Read(bar, 0, p))
				for _, v := range p {
					require.Equal(t, byte(0xff), v)
				}
			}
			require.NoError(t, m.client.Write(bar, 2, []byte{1, 2, 3, 4}))
		}
		_, err := m.request(trap.Request{Kind: trap.Read})
		require.Error(t, err, "BARs are for that")
		require.NoError(t, m.client.Write(trap.PCIBAR, trap.PCIBell, []byte{1}), "nothing is asked for")
		m.open()
	}
	var both [8]byte
	require.NoError(t, m.client.Read(hw.BAR0, 0, both[:]))
	require.Equal(t, uint64(hw.CardID), binary.LittleEndian.Uint64(both[:]), "two words, of which the second is zero")
	copy(m.bars[trap.PCIBAR], make([]byte, trap.MailboxBytes))
	m.bars[trap.PCIBAR][8] = 99
	m.bars[trap.PCIBAR][0]++
	require.NoError(t, m.client.Write(trap.PCIBAR, trap.PCIBell, []byte{1}), "a request that no driver makes")
}

// A reset of the machine leaves nothing, and the next driver finds memory that is zero: of the card, and
// of BAR3, which a machine writes to whenever it likes.
func TestResetLeavesNothing(t *testing.T) {
	m := boot(t, aggregator(t, 1, 128<<20), "fv-opt")
	_, err := m.request(trap.Request{Kind: trap.Count})
	require.Error(t, err, "no driver has opened it")
	m.open()
	m.Write(hw.BAR0, hw.RegWindow, 3)
	m.Write(hw.BAR0, hw.WindowBase, 77)
	require.Equal(t, uint32(77), m.Read(hw.BAR0, hw.WindowBase))
	m.bars[hw.BAR3][0] = 5
	_, _, err = m.client.Do(vfiotest.Reset, nil)
	require.NoError(t, err)
	require.Equal(t, ^uint32(0), m.Read(hw.BAR0, hw.WindowBase), "nobody is there")
	m.bars[hw.BAR3][4096] = 5
	m.open()
	m.Write(hw.BAR0, hw.RegWindow, 3)
	require.Zero(t, m.Read(hw.BAR0, hw.WindowBase))
	require.Zero(t, m.bars[hw.BAR3][0]+m.bars[hw.BAR3][4096])
}

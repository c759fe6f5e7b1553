package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/trap"
)

// PCI is a VM's way to its card by its BARs, which it maps from /sys/bus/pci: an access that traps is one
// instruction. Its system memory consists of huge pages of 2 MiB, which stay where they are. It needs root,
// as all that drives a device by itself does.
//
// A program that is killed leaves its card running for as long as what it has submitted takes, and the card
// may write to memory that the program had. The next that opens the card ends that.
type PCI struct {
	bars   [6][]byte
	box    *trap.Mailbox
	terms  trap.Terms
	ram    []byte
	frames []uint64
}

// FindPCI returns the directory of the card in a machine's /sys/bus/pci/devices; "" where there is none.
func FindPCI(root string) string {
	devices, _ := filepath.Glob(filepath.Join(root, "*", "device")) // the pattern is good
	for _, file := range devices {
		dir := filepath.Dir(file)
		if number(dir, "vendor") == trap.PCIVendor && number(dir, "device") == trap.PCIDevice {
			return dir
		}
	}
	return ""
}

// PCIDevices is where Linux lists the PCI devices of a machine.
const PCIDevices = "/sys/bus/pci/devices"

func number(dir, name string) uint64 {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 32) // 0 is no vendor
	return n
}

// OpenPCI opens the card of a directory that FindPCI has found, with so many bytes of system memory.
func OpenPCI(dir string, ram uint64) (*PCI, error) {
	p := &PCI{}
	if err := p.open(dir, ram); err != nil {
		return nil, errors.Join(fmt.Errorf("a card in %s: %w", dir, err), p.Close())
	}
	return p, nil
}

func (p *PCI) open(dir string, ram uint64) error {
	if err := os.WriteFile(filepath.Join(dir, "enable"), []byte("1"), 0); err != nil {
		return err
	}
	for _, bar := range []int{hw.BAR0, hw.BAR1, hw.BAR3, trap.PCIBAR} {
		if err := p.mapBAR(dir, bar); err != nil {
			return fmt.Errorf("BAR%d: %w", bar, err)
		}
	}
	if len(p.bars[trap.PCIBAR]) < trap.PCIBytes {
		return fmt.Errorf("BAR%d has %d bytes; a card's has %d", trap.PCIBAR, len(p.bars[trap.PCIBAR]), trap.PCIBytes)
	}
	var err error
	if p.box, err = trap.NewMailbox(p.bars[trap.PCIBAR]); err != nil {
		return err
	}
	p.box.Resume()
	a, err := p.request(trap.Request{Kind: trap.Open})
	if err != nil {
		return err
	}
	if p.terms, err = trap.DecodeTerms(a.Payload); err != nil {
		return err
	}
	return p.takeRAM(ram)
}

func (p *PCI) mapBAR(dir string, bar int) error {
	f, err := os.OpenFile(filepath.Join(dir, "resource"+strconv.Itoa(bar)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p.bars[bar], err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return os.NewSyscallError("mmap", err)
}

// takeRAM takes huge pages, and finds out where they are.
func (p *PCI) takeRAM(n uint64) error {
	const hugePages = "/proc/sys/vm/nr_hugepages"
	pages := n / hw.LargePage
	if err := os.WriteFile(hugePages, strconv.AppendUint(nil, pages, 10), 0); err != nil {
		return err
	}
	var err error
	p.ram, err = unix.Mmap(-1, 0, int(pages*hw.LargePage), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("%d huge pages of 2 MiB (%s): %w", pages, hugePages, err)
	}
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range pages {
		const present, frame = 1 << 63, 1<<55 - 1
		page := p.ram[i*hw.LargePage:]
		page[0] = 0 // the page is there
		var word [8]byte
		if _, err := f.ReadAt(word[:], int64(addressOf(page)/hw.SmallPage*8)); err != nil {
			return err
		}
		e := binary.LittleEndian.Uint64(word[:])
		if e&present == 0 || e&frame == 0 {
			return errors.New("/proc/self/pagemap does not say where memory is: that takes root")
		}
		p.frames = append(p.frames, e&frame*hw.SmallPage)
	}
	return nil
}

// request has a request served.
func (p *PCI) request(r trap.Request) (trap.Answer, error) {
	p.box.Post(r)
	store32(p.bars[trap.PCIBAR][trap.PCIBell:], 1)
	for !p.box.Done() { // the write may not have ended when the next instruction runs; this access traps, and has
		load32(p.bars[trap.PCIBAR][trap.PCIBell:])
	}
	a := p.box.Answer()
	if a.Failed {
		return a, errors.New(string(a.Payload))
	}
	return a, nil
}

// Terms returns what the VM has.
func (p *PCI) Terms() trap.Terms { return p.terms }

// RAM is the VM's system memory, and Frames where each 2 MiB of it are.
func (p *PCI) RAM() []byte { return p.ram }

// Frames is for lowlevel.Config.
func (p *PCI) Frames() []uint64 { return p.frames }

// Size implements lowlevel.Bus.
func (p *PCI) Size(bar int) uint64 {
	switch bar {
	case hw.BAR0:
		return hw.BAR0Bytes
	case hw.BAR1:
		return min(p.terms.BAR1, uint64(len(p.bars[bar])))
	case hw.BAR3:
		return min(p.terms.BAR3, uint64(len(p.bars[bar])))
	}
	return 0
}

// Read implements lowlevel.Bus.
func (p *PCI) Read(bar int, off uint64) uint32 {
	if off%4 != 0 || off >= p.Size(bar) {
		return ^uint32(0)
	}
	return load32(p.bars[bar][off:])
}

// Write implements lowlevel.Bus.
func (p *PCI) Write(bar int, off uint64, v uint32) {
	if off%4 == 0 && off < p.Size(bar) {
		store32(p.bars[bar][off:], v)
	}
}

// Hypercall implements lowlevel.Calls.
func (p *PCI) Hypercall(ops []byte) error {
	_, err := p.request(trap.Request{Kind: trap.Call, Payload: ops})
	return err
}

// Counters returns what the Aggregator has counted of the VM.
func (p *PCI) Counters() (trap.Counters, error) {
	a, err := p.request(trap.Request{Kind: trap.Count})
	if err != nil {
		return trap.Counters{}, err
	}
	return trap.DecodeCounters(a.Payload)
}

// Lost returns nil: a machine whose card is gone is stopped.
func (p *PCI) Lost() error { return nil }

// Close gives memory and BARs back.
func (p *PCI) Close() error {
	var errs []error
	for _, b := range append(p.bars[:], p.ram) {
		if b != nil {
			errs = append(errs, unix.Munmap(b))
		}
	}
	return errors.Join(errs...)
}

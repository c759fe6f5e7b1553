// Package pci shows a VM of GPUvm to a virtual machine as a PCI device, by vfio-user: registers in BAR0,
// the apertures in BAR1 and BAR3, and in BAR5 what no hardware has, a mailbox (package hypercall/trap) for
// hypercalls and for counters. An access of a BAR is a trap of the machine's processor, and the VM's
// system memory is the machine's, by guest-physical addresses.
//
//	BAR5  0x0000  the mailbox, which the machine maps: its accesses do not trap
//	      0x1000  writing anything here has the request in the mailbox served before the write ends
//
// A driver begins with the request trap.Open, without a payload: it gets a card as after a reset, with
// VRAM that is zero. So does one that comes after a driver that was killed.
//
// The goroutine of vfiouser.Serve calls all methods.
package pci

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"go.uber.org/zap"

	"pvdrm/backend/carrier/vfiouser"
	"pvdrm/backend/gpuvm"
	"pvdrm/backend/gpuvm/serve"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/trap"
	"pvdrm/internal/hostmem"
)

// Device is a card in a slot of a machine.
type Device struct {
	server *serve.Server
	log    *zap.Logger
	shared *hostmem.Region // BAR5's mailbox
	mapped *hostmem.Region // BAR3, where the mode maps it; else nil
	box    *trap.Mailbox
	memory map[uint64][]byte // of the machine, by address
	vm     *gpuvm.VM         // nil until a driver has opened it
	gate   serve.Gate        // nil without
}

var _ vfiouser.Device = (*Device)(nil)

// New makes a device. Close it when its machine is gone.
func New(s *serve.Server) (*Device, error) {
	if s.Mode.BAR1 {
		return nil, fmt.Errorf("mode %s: BAR1 of a PCI device is not mapped; choose another mode, or other traps", s.Mode.Name)
	}
	shared, err := hostmem.New(trap.PCIBytes)
	if err != nil {
		return nil, err
	}
	d := &Device{server: s, log: s.Log, shared: shared, memory: map[uint64][]byte{}}
	d.box, err = trap.NewMailbox(shared.Bytes())
	if err == nil && s.Mode.Remap {
		d.mapped, err = hostmem.New(s.Aggregator.Terms(s.Mode).BAR3)
	}
	if err != nil {
		shared.Release()
		return nil, err
	}
	return d, nil
}

// Close ends the VM.
func (d *Device) Close() {
	d.end()
	d.shared.Release()
	if d.mapped != nil {
		d.mapped.Release()
	}
}

// end ends the VM, if there is one.
func (d *Device) end() {
	if d.vm != nil {
		d.vm.Close()
		d.vm = nil
	}
	if d.gate != nil {
		d.gate.Close()
		d.gate = nil
	}
}

// Config implements vfiouser.Device.
func (d *Device) Config() vfiouser.Config {
	return vfiouser.Config{Vendor: trap.PCIVendor, Device: trap.PCIDevice, Class: trap.PCIClass, Revision: 1,
		Wide: [6]bool{hw.BAR1: true, hw.BAR3: true}, Prefetch: [6]bool{hw.BAR1: true, hw.BAR3: true}}
}

// power is the least power of two that is not below n, as BARs have sizes.
func power(n uint64) uint64 { return 1 << bits.Len64(n-1) }

// Region implements vfiouser.Device.
func (d *Device) Region(bar int) vfiouser.Region {
	t := d.server.Aggregator.Terms(d.server.Mode)
	switch bar {
	case hw.BAR0:
		return vfiouser.Region{Size: hw.BAR0Bytes}
	case hw.BAR1:
		return vfiouser.Region{Size: power(t.BAR1)}
	case hw.BAR3:
		r := vfiouser.Region{Size: power(t.BAR3)}
		if d.mapped != nil {
			r.File, r.Areas = d.mapped.FD(), []vfiouser.Area{{Offset: 0, Size: t.BAR3}}
		}
		return r
	case trap.PCIBAR:
		return vfiouser.Region{Size: trap.PCIBytes, File: d.shared.FD(), Areas: []vfiouser.Area{{Offset: 0, Size: trap.MailboxBytes}}}
	}
	return vfiouser.Region{}
}

// Read implements vfiouser.Device. What is not read by words of 4 bytes, or two of them, reads as ones.
func (d *Device) Read(bar int, off uint64, p []byte) {
	for i := range p {
		p[i] = 0xff
	}
	if bar == trap.PCIBAR || d.vm == nil || !served(off, p) {
		return
	}
	for i := 0; i < len(p); i += 4 {
		binary.LittleEndian.PutUint32(p[i:], d.vm.Read(bar, off+uint64(i)))
	}
}

// Write implements vfiouser.Device.
func (d *Device) Write(bar int, off uint64, p []byte) {
	if bar == trap.PCIBAR {
		if off >= trap.PCIBell {
			d.request()
		}
		return
	}
	if d.vm == nil || !served(off, p) {
		return
	}
	for i := 0; i < len(p); i += 4 {
		d.vm.Write(bar, off+uint64(i), binary.LittleEndian.Uint32(p[i:]))
	}
}

func served(off uint64, p []byte) bool { return off%4 == 0 && (len(p) == 4 || len(p) == 8) }

// request serves the mailbox.
func (d *Device) request() {
	r, ok, err := d.box.Take()
	if !ok {
		return
	}
	var a trap.Answer
	if err == nil {
		a, err = d.do(r)
	}
	if err != nil {
		d.log.Debug("a machine's request failed", zap.Error(err))
		a = trap.Answer{Failed: true, Value: ^uint32(0), Payload: []byte(err.Error())}
	}
	d.box.Reply(a)
}

// do does what a request asks for. Reads and writes of BARs have BARs here.
func (d *Device) do(r trap.Request) (a trap.Answer, err error) {
	switch {
	case r.Kind == trap.Ask:
	case r.Kind == trap.Open:
		if err := d.open(); err != nil {
			return a, err
		}
	case d.vm == nil:
		return a, errors.New("gpuvm: no driver has opened the card")
	case r.Kind == trap.Call:
		return a, d.vm.Hypercall(r.Payload)
	case r.Kind == trap.Count:
		a.Payload = d.vm.Counters().Encode()
		return a, nil
	default:
		return a, trap.ErrRequest
	}
	t := d.server.Aggregator.Terms(d.server.Mode)
	t.Direct = false
	a.Payload = t.Encode()
	return a, nil
}

// open makes a VM in place of the one that there is.
func (d *Device) open() error {
	d.end()
	memory := gpuvm.Memory{}
	if d.mapped != nil {
		clear(d.mapped.Bytes()) // a machine writes there also when no driver has opened the card
		memory.BAR3 = d.mapped.Bytes()
	}
	vm, gate, err := d.server.Begin(memory)
	if err != nil {
		return err
	}
	d.vm, d.gate = vm, gate
	for addr, mem := range d.memory {
		if err := vm.Place(addr, mem); err != nil {
			d.end()
			return err
		}
	}
	return nil
}

// Map implements vfiouser.Device. What lies above the addresses of a card is left out.
func (d *Device) Map(addr uint64, mem []byte) error {
	if addr >= hw.AddressMax || uint64(len(mem)) > hw.AddressMax-addr {
		return nil
	}
	d.memory[addr] = mem
	if d.vm == nil {
		return nil
	}
	err := d.vm.Place(addr, mem)
	if err != nil {
		delete(d.memory, addr)
	}
	return err
}

// Unmap implements vfiouser.Device.
func (d *Device) Unmap(addr uint64) {
	if _, ok := d.memory[addr]; !ok {
		return
	}
	delete(d.memory, addr)
	if d.vm != nil {
		d.vm.Withdraw(addr)
	}
}

// Reset implements vfiouser.Device.
func (d *Device) Reset() { d.end() }

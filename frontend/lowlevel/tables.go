package lowlevel

import (
	"errors"

	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/paging"
)

// directory is an address space.
type directory interface {
	// table makes the tables of entry i, unless they exist.
	table(i uint64) error
	// enter writes the entry of a page of a size. The tables exist.
	enter(va, size uint64, e hw.PTE) error
	flush() error
	free() error
	address() uint64 // in VRAM; 0 if it is the hypervisor's
}

// written is a directory that the driver writes itself.
type written struct {
	driver *Driver
	make   func(size uint64) (*instance, error)
	space  uint64 // bytes of addresses, which the descriptor's limit says, too: the card reads no entry behind
	top    *instance
	tables map[uint64]*instance // small table, then large table
}

func newWritten(d *Driver, makes func(size uint64) (*instance, error), space uint64) (*written, error) {
	top, err := makes(hw.DirectoryBytes)
	if err != nil {
		return nil, err
	}
	top.zero(0, (space+hw.DirectorySpan-1)/hw.DirectorySpan*hw.EntryBytes)
	return &written{driver: d, make: makes, space: space, top: top, tables: map[uint64]*instance{}}, nil
}

func (w *written) table(i uint64) error {
	if w.tables[i] != nil {
		return nil
	}
	t, err := w.make(hw.TableBytes)
	if err != nil {
		return err
	}
	n := min(w.space-i*hw.DirectorySpan, hw.DirectorySpan)
	t.zero(0, n/hw.SmallPage*hw.EntryBytes)
	t.zero(hw.SmallTable, n/hw.LargePage*hw.EntryBytes)
	w.tables[i] = t
	w.top.write64(i*hw.EntryBytes, uint64(hw.MakePDE(t.vram+hw.SmallTable, t.vram)))
	return nil
}

func (w *written) enter(va, size uint64, e hw.PTE) error {
	off := va % hw.DirectorySpan / size * hw.EntryBytes
	if size == hw.LargePage {
		off += hw.SmallTable
	}
	t := w.tables[va/hw.DirectorySpan]
	if e == 0 { // no half of it is ever valid with another half
		t.write32(off, 0)
		t.write32(off+4, 0)
		return nil
	}
	t.write32(off+4, uint32(e>>32))
	t.write32(off, uint32(e))
	return nil
}

func (w *written) flush() error {
	d := w.driver
	d.setRegister(hw.RegFlushTable, uint32(w.address()>>hw.DirectoryUnit))
	d.setRegister(hw.RegFlush, hw.Valid)
	if d.Bus.Read(hw.BAR0, hw.RegFlushStatus) != 0 {
		return errors.New("the card does not end a TLB flush")
	}
	return nil
}

func (w *written) free() error {
	var errs []error
	for _, t := range w.tables {
		errs = append(errs, t.free())
	}
	return errors.Join(append(errs, w.top.free())...)
}

func (w *written) address() uint64 { return w.top.vram }

// granted is a directory that the hypervisor keeps.
type granted struct {
	driver *Driver
	id     uint32
	tables map[uint64]bool
}

func newGranted(d *Driver) (*granted, error) {
	d.ids = paging.First + (d.ids+1-paging.First)%(paging.Last+1-paging.First)
	g := &granted{driver: d, id: d.ids, tables: map[uint64]bool{}}
	return g, g.call(paging.NewDirectory, 0, 0)
}

func (g *granted) call(op paging.Op, a, b uint64) error {
	return g.driver.call(paging.Call{Op: op, Directory: g.id, A: a, B: b})
}

func (g *granted) table(i uint64) error {
	if g.tables == nil || g.tables[i] {
		return nil
	}
	g.tables[i] = true
	return g.call(paging.NewTable, i, 0)
}

func (g *granted) enter(va, size uint64, e hw.PTE) error {
	if size == hw.LargePage {
		va |= paging.Large
	}
	return g.call(paging.Map, va, uint64(e))
}

func (g *granted) flush() error    { return g.call(paging.Flush, 0, 0) }
func (g *granted) free() error     { return g.call(paging.FreeDirectory, 0, 0) }
func (g *granted) address() uint64 { return 0 }

// newDirectory makes an address space.
func (d *Driver) newDirectory() (directory, error) {
	if d.Calls != nil {
		return newGranted(d)
	}
	return newWritten(d, d.newInstance, hw.AddressMax)
}

// pages calls f for each page of a range: those of 2 MiB where large allows it and both addresses
// are aligned.
func pages(va, addr, n uint64, large bool, f func(va, addr, size uint64) error) error {
	for n > 0 {
		size := uint64(hw.SmallPage)
		if large && (va|addr)%hw.LargePage == 0 && n >= hw.LargePage {
			size = hw.LargePage
		}
		if err := f(va, addr, size); err != nil {
			return err
		}
		va, addr, n = va+size, addr+size, n-size
	}
	return nil
}

// mapRange enters a range and flushes.
func mapRange(dir directory, va uint64, t hw.Target, addr, n uint64, large bool) error {
	return mapPlaces(dir, va, t, addr, n, large, func(addr uint64) uint64 { return addr })
}

// mapPlaces is mapRange where place says what the address of each page is in its entry.
func mapPlaces(dir directory, va uint64, t hw.Target, addr, n uint64, large bool, place func(uint64) uint64) error {
	for i := va / hw.DirectorySpan; i <= (va+n-1)/hw.DirectorySpan; i++ {
		if err := dir.table(i); err != nil {
			return err
		}
	}
	err := pages(va, addr, n, large, func(va, addr, size uint64) error {
		return dir.enter(va, size, hw.MakePTE(t, place(addr), false))
	})
	return errors.Join(err, dir.flush())
}

// unmapRange clears what mapRange entered, and flushes. Large says whether the range was allowed
// large pages, which it then has wherever va is aligned.
func unmapRange(dir directory, va, n uint64, large bool) error {
	err := pages(va, 0, n, large, func(va, _, size uint64) error { return dir.enter(va, size, 0) })
	return errors.Join(err, dir.flush())
}

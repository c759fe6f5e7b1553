package file

import (
	"fmt"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gpu"
)

// Lender finds what files on the guest's other devices share, each of which another backend serves.
// Implementations must allow calls from any goroutine.
type Lender interface {
	// Borrow counts an object of what a key names, and returns what gpu.PeerSharer.AdoptPeer takes. The error is
	// ENOENT if no other device of the guest shares anything by that key.
	Borrow(key drm.Key) (Loan, error)
	// Return ends the object of a loan.
	Return(Loan)
}

// Loan is memory of another device.
type Loan struct {
	Key   drm.Key
	Place int // of the device among the guest's
	Name  uint64
	Size  uint64 // bytes
}

// SetLender says where the guest's files find memory of its other devices. It must be called before the guest's
// first file.
func (g *Guest) SetLender(l Lender) { g.lender = l }

// Lend counts an object of another device of the guest, of VRAM that a file shares by a key. The VRAM stays charged
// here as long as there is one. Place is left to the caller.
func (g *Guest) Lend(key drm.Key) (Loan, error) {
	s := g.shares.enter(key)
	if s == nil {
		return Loan{}, errUnknownKey
	}
	mem, ok := s.mem.(gpu.PeerShared)
	if !ok {
		g.leave(s, false)
		return Loan{}, fmt.Errorf("the device shares no memory with others: %w", syscall.EOPNOTSUPP)
	}
	return Loan{Key: key, Name: mem.PeerName(), Size: mem.Size()}, nil
}

// Recall ends an object that Lend counted.
func (g *Guest) Recall(key drm.Key) {
	g.shares.mu.Lock()
	s := g.shares.memory[key]
	g.shares.mu.Unlock()
	if s != nil { // it is there as long as it is lent
		g.leave(s, false)
	}
}

// borrow makes an object of what another device shares.
func (f *File) borrow(handle uint32, key drm.Key) (size uint64, err error) {
	to, ok := f.ctx.(gpu.PeerSharer)
	if !ok || f.guest.lender == nil {
		return 0, errUnknownKey
	}
	loan, err := f.guest.lender.Borrow(key)
	if err != nil {
		return 0, err
	}
	o := &object{loan: &loan, opened: true}
	if err := f.enter(handle, o, loan.Size, func() (gpu.Memory, error) { return to.AdoptPeer(loan.Place, loan.Name, loan.Size) }); err != nil {
		f.guest.lender.Return(loan)
		return 0, err
	}
	return loan.Size, nil
}

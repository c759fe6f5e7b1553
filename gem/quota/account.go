package quota

import "sync/atomic"

// Amounts are numbers of each resource.
type Amounts [Resources]uint64

// Account is what one file holds of its guest's quotas. It is not safe for concurrent use, but for
// VRAM.
type Account struct {
	set  *Set
	held Amounts
	vram atomic.Uint64 // held[VRAM], for readers
}

// NewAccount opens an account, which holds nothing.
func NewAccount(s *Set) *Account { return &Account{set: s} }

// Set returns the quotas that the account charges.
func (a *Account) Set() *Set { return a.set }

// Charge takes n of a resource until Discharge or Close.
func (a *Account) Charge(r Resource, n uint64) error {
	if err := a.set.Take(r, n); err != nil {
		return err
	}
	a.hold(r, n)
	return nil
}

// hold adds n, or takes -n away.
func (a *Account) hold(r Resource, n uint64) {
	a.held[r] += n
	if r == VRAM {
		a.vram.Store(a.held[r])
	}
}

// VRAM returns the bytes of device memory that the account holds. Any goroutine may call it.
func (a *Account) VRAM() uint64 { return a.vram.Load() }

// Discharge gives back n of what was charged.
func (a *Account) Discharge(r Resource, n uint64) {
	a.hold(r, -n)
	a.set.Give(r, n)
}

// Adopt holds n that somebody took of the Set already.
func (a *Account) Adopt(r Resource, n uint64) { a.hold(r, n) }

// Leave gives up n that stay taken of the Set: somebody else gives them back to it.
func (a *Account) Leave(r Resource, n uint64) { a.hold(r, -n) }

// ChargeEach takes a number of each resource, or none of any.
func (a *Account) ChargeEach(n Amounts) error {
	for r, n1 := range n {
		if n1 == 0 {
			continue
		}
		if err := a.Charge(Resource(r), n1); err != nil {
			clear(n[r:])
			a.DischargeEach(n)
			return err
		}
	}
	return nil
}

// DischargeEach gives back a number of each resource.
func (a *Account) DischargeEach(n Amounts) {
	for r, n1 := range n {
		if n1 > 0 {
			a.Discharge(Resource(r), n1)
		}
	}
}

// Close gives back all that the account still holds.
func (a *Account) Close() { a.DischargeEach(a.held) }

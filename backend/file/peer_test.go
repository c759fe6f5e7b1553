package file

import (
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// linked is a device whose contexts have memory of another one. What they get is memory of their own: the device's part
// is tested with gpu/nvidia.
type linked struct {
	gpu.Device
	adopted []uint64
	refuse  error
}

type linkedContext struct {
	gpu.Context
	gpu.Sharer
	dev *linked
}

type named struct{ gpu.Shared }

func (named) PeerName() uint64 { return 77 }

func (d *linked) NewContext(label string) (gpu.Context, error) {
	c, err := d.Device.NewContext(label)
	return &linkedContext{Context: c, Sharer: c.(gpu.Sharer), dev: d}, err
}

func (c *linkedContext) Share(m gpu.Memory) (gpu.Shared, error) {
	s, err := c.Sharer.Share(m)
	return named{s}, err
}

func (c *linkedContext) Adopt(s gpu.Shared) (gpu.Memory, error) {
	return c.Sharer.Adopt(s.(named).Shared)
}

func (c *linkedContext) AdoptPeer(place int, name, size uint64) (gpu.Memory, error) {
	if c.dev.refuse != nil {
		return nil, c.dev.refuse
	}
	c.dev.adopted = append(c.dev.adopted, uint64(place), name, size)
	return c.NewVRAM(size)
}

// lender lends what another guest's backend has.
type lender struct {
	of *Guest

	mu   sync.Mutex
	lent int
}

func (l *lender) Borrow(key drm.Key) (Loan, error) {
	loan, err := l.of.Lend(key)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lent++
	}
	loan.Place = 3
	return loan, err
}

func (l *lender) Return(loan Loan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent--
	l.of.Recall(loan.Key)
}

// Memory of another device is charged there as long as a file has it, and costs an object here.
func TestLoans(t *testing.T) {
	owner, s := newSharing(t), newSharing(t)
	has, gets := &linked{Device: owner.dev}, &linked{Device: s.dev}
	a, err := Open(has, owner.guest, "owner", &life{})
	require.NoError(t, err)
	l := &lender{of: owner.guest}
	s.guest.SetLender(l)
	b, err := Open(gets, s.guest, "borrower", &life{})
	require.NoError(t, err)
	require.NoError(t, a.NewVRAM(1, 3*page))
	key, err := a.ShareObject(1)
	require.NoError(t, err)
	size, err := b.OpenObject(5, key)
	require.NoError(t, err)
	require.EqualValues(t, 3*page, size)
	require.Equal(t, []uint64{3, 77, 3 * page}, gets.adopted)
	s.left(0, 1)
	_, err = b.OpenObject(6, key)
	require.NoError(t, err)
	require.Equal(t, 2, l.lent)
	_, err = b.ShareObject(5)
	require.ErrorIs(t, err, syscall.EOPNOTSUPP, "the other device's file shares it")
	require.NoError(t, b.CloseObject(6))
	require.Equal(t, 1, l.lent)

	require.NoError(t, a.CloseObject(1))
	owner.left(3*page, 1) // that which the loan counts
	require.NoError(t, b.Close())
	require.Zero(t, l.lent)
	owner.left(0, 0)
	require.NoError(t, a.Close())
	require.Empty(t, owner.guest.shares.memory)
	s.over(s.a, s.b)
}

// What fails is not lent, nor charged.
func TestLoansRefused(t *testing.T) {
	owner, s := newSharing(t), newSharing(t)
	has, gets := &linked{Device: owner.dev}, &linked{Device: s.dev, refuse: gpu.ErrUnsupported}
	a, err := Open(has, owner.guest, "owner", &life{})
	require.NoError(t, err)
	require.NoError(t, a.NewVRAM(1, page))
	key, err := a.ShareObject(1)
	require.NoError(t, err)
	l := &lender{of: owner.guest}
	b, err := Open(gets, s.guest, "borrower", &life{})
	require.NoError(t, err)
	_, err = b.OpenObject(5, key)
	require.ErrorIs(t, err, syscall.ENOENT, "the guest has one device")
	s.guest.SetLender(l)
	for _, k := range []drm.Key{key, {1}} {
		_, err = b.OpenObject(5, k)
		require.Error(t, err)
		require.Zero(t, l.lent)
		require.Zero(t, s.guest.Used(quota.Objects))
	}
	_, err = s.a.OpenObject(5, key)
	require.ErrorIs(t, err, syscall.ENOENT, "its device reaches no other")
	owner.guest.Recall(drm.Key{1}) // of nothing: nothing happens
	require.NoError(t, s.a.NewVRAM(1, page))
	own, err := s.a.ShareObject(1)
	require.NoError(t, err)
	_, err = s.guest.Lend(own)
	require.ErrorIs(t, err, syscall.EOPNOTSUPP, "its device lends nothing")
	require.NoError(t, b.Close())
	s.over(s.a, s.b)
	require.NoError(t, a.Close())
}

package arbiter

import (
	"slices"
	"time"

	"pvdrm/backend/sched"
)

// debt is the scheduler's account of a guest that has left and owes engine time to the others, or
// a pause to its cap. The next guest of the same payer gets the account, so a new name does not
// clear a debt. Debts of a guest of that name come first, then the largest. Since every guest
// takes a debt if there is one, a payer never has more debts than it has had guests at once.
type debt struct {
	id    sched.ID
	name  string
	payer string
}

// maxDebts bounds the debts that are kept, over all payers.
const maxDebts = DefaultMaxBackends

// takeDebt gives a member an account that an earlier guest left to its payer, if there is one.
func (a *arena) takeDebt(m *member, now time.Duration) (taken bool, err error) {
	best := -1
	for i, d := range a.debts {
		switch {
		case d.payer != m.payer:
		case d.name == m.name:
			best = i
		case best < 0 || a.debts[best].name != m.name && a.owed(d) > a.owed(a.debts[best]):
			best = i
		}
	}
	if best < 0 {
		return false, nil
	}
	id := a.debts[best].id
	for _, t := range a.tokens {
		if err := t.sched.SetShare(id, m.share, now); err != nil {
			return false, err
		}
	}
	m.id = id
	a.debts = slices.Delete(a.debts, best, best+1)
	return true, nil
}

// leaveDebt keeps the accounts of a member that leaves with a debt. If there is no room for
// another, it forgets the smallest debt.
func (a *arena) leaveDebt(m *member, now time.Duration) {
	a.settleDebts(now)
	if a.settled(m.id, now) {
		a.forget(m.id, now)
		return
	}
	for _, t := range a.tokens {
		t.must(t.sched.SetShare(m.id, sched.Share{Weight: m.share.Weight}, now)) // without its reserve
	}
	a.debts = append(a.debts, debt{id: m.id, name: m.name, payer: m.payer})
	if len(a.debts) <= maxDebts {
		return
	}
	least := 0
	for i, d := range a.debts {
		if a.owed(d) < a.owed(a.debts[least]) {
			least = i
		}
	}
	a.forget(a.debts[least].id, now)
	a.debts = slices.Delete(a.debts, least, least+1)
}

// settleDebts forgets paid debts. Debts decrease while others use the GPU.
func (a *arena) settleDebts(now time.Duration) {
	a.debts = slices.DeleteFunc(a.debts, func(d debt) bool {
		settled := a.settled(d.id, now)
		if settled {
			a.forget(d.id, now)
		}
		return settled
	})
}

// settled reports whether a guest owes nothing at any engine.
func (a *arena) settled(id sched.ID, now time.Duration) bool {
	return !slices.ContainsFunc(a.tokens[:], func(t *token) bool { return !t.sched.Settled(id, now) })
}

// owed returns the debt at all engines.
func (a *arena) owed(d debt) (sum time.Duration) {
	for _, t := range a.tokens {
		sum += t.sched.Debt(d.id)
	}
	return sum
}

func (a *arena) forget(id sched.ID, now time.Duration) {
	for _, t := range a.tokens {
		t.sched.Remove(id, now)
	}
}

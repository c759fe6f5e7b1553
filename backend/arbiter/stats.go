package arbiter

import (
	"cmp"
	"slices"
	"time"

	"pvdrm/backend/sched"
	"pvdrm/gpu"
)

// GPUStats are the counts of a GPU since the arbiter was started.
type GPUStats struct {
	Number  int                  `json:"gpu"`
	Policy  string               `json:"policy"`
	Engines [Engines]EngineStats `json:"engines"` // compute, copy
	Guests  []GuestStats         `json:"guests"`  // that are connected, by name
	// Capacity is what the arbiter may promise of the GPU, and Promised what it has.
	Capacity Amounts `json:"capacity"`
	Promised Amounts `json:"promised"`
}

// EngineStats are the counts of an engine.
type EngineStats struct {
	Holders []string `json:"holders"` // the guests that have the token
	Grants  uint64   `json:"grants"`
	Revokes uint64   `json:"revokes"`
	Expired uint64   `json:"expired"` // backends disconnected because they kept the token for too long
}

// GuestStats are the counts of a connected guest.
type GuestStats struct {
	Name   string
	Peer   Peer
	Share  sched.Share
	Joined time.Duration // ago
	// Promised is what of the GPU is kept for the guest.
	Promised Amounts
	Engines  [Engines]GuestEngineStats
}

// GuestEngineStats are the counts of a guest at one engine.
type GuestEngineStats struct {
	sched.Stats
	Waits       gpu.Histogram // for the token
	Implausible uint64        // claims to have used more time than there was
	Preempted   uint64        // commands that had to stop, so that other guests got the engine
	Standing    bool          // it has the token, and no other guest waits
}

func (a *arena) stats() GPUStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	out := GPUStats{Number: a.number, Policy: a.tokens[0].sched.Policy(), Capacity: a.bounds.Capacity, Promised: a.promised()}
	byID := map[sched.ID]int{}
	for _, m := range a.members {
		byID[m.id] = len(out.Guests)
		out.Guests = append(out.Guests, GuestStats{Name: m.name, Peer: m.peer, Share: m.share, Joined: now - m.joined, Promised: m.promised})
	}
	for e, t := range a.tokens {
		out.Engines[e] = EngineStats{Holders: []string{}, Grants: t.grants, Revokes: t.revokes, Expired: t.expelled}
		for _, h := range t.holds { // their use until now counts, too
			out.Engines[e].Holders = append(out.Engines[e].Holders, h.member.name)
			t.look(h, now)
		}
		for _, st := range t.sched.Stats(now) {
			m := t.byID[st.ID]
			if m == nil {
				continue // gone, with debts
			}
			s := &m.seats[e]
			g := &out.Guests[byID[st.ID]].Engines[e]
			*g = GuestEngineStats{Stats: st, Waits: s.waits, Implausible: s.implausible, Preempted: s.preempted,
				Standing: s.hold != nil && s.hold.standing && !s.hold.wanted}
		}
	}
	slices.SortFunc(out.Guests, func(a, b GuestStats) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

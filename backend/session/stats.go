package session

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// counters of a session. The pump adds to them; anybody may read them.
type counters struct {
	requests, multicalls, largest atomic.Uint64
	grants, grantedBytes, pages   atomic.Uint64
	batches, sleeps               atomic.Uint64
	polling, sleeping             atomic.Int64 // nanoseconds
}

// took counts requests that were there at once.
func (c *counters) took(n uint64) {
	c.requests.Add(n)
	c.multicalls.Add(1)
	if n > c.largest.Load() {
		c.largest.Store(n) // nobody else stores it
	}
}

// snapshot reads the counters; the exits are the carrier's to know.
func (c *counters) snapshot() hypercall.Counters {
	return hypercall.Counters{
		Requests: c.requests.Load(), Multicalls: c.multicalls.Load(), LargestMulticall: c.largest.Load(),
		Grants: c.grants.Load(), GrantedBytes: c.grantedBytes.Load(), PTEs: c.pages.Load(),
		Batches: c.batches.Load(), Sleeps: c.sleeps.Load(),
		PollingNS: uint64(c.polling.Load()), SleepingNS: uint64(c.sleeping.Load()),
	}
}

// add sums up, but for the largest multicall.
func add(a, b hypercall.Counters) hypercall.Counters {
	a.Requests += b.Requests
	a.Multicalls += b.Multicalls
	a.LargestMulticall = max(a.LargestMulticall, b.LargestMulticall)
	a.Grants += b.Grants
	a.GrantedBytes += b.GrantedBytes
	a.PTEs += b.PTEs
	a.Batches += b.Batches
	a.Sleeps += b.Sleeps
	a.PollingNS += b.PollingNS
	a.SleepingNS += b.SleepingNS
	return a
}

// Group is the sessions of one guest: its statistics and its quotas. The zero value is
// ready. Its lock is held for moments only, and no other is taken under it.
type Group struct {
	quotas [Resources]quota

	mu     sync.Mutex
	live   map[*Session]struct{}
	closed hypercall.Counters
	count  uint64            // sessions so far
	lost   map[string]uint64 // contexts, by cause
}

// ClientStats are the counters of one open DRM file.
type ClientStats struct {
	Client   string             `json:"client"`
	Age      time.Duration      `json:"age_ns"`
	Counters hypercall.Counters `json:"counters"`
}

// GuestStats are the counters of a guest: of all its sessions so far, and of
// each that is open.
type GuestStats struct {
	Sessions uint64             `json:"sessions"`
	Total    hypercall.Counters `json:"total"`
	Clients  []ClientStats      `json:"clients"`
	Quotas   []QuotaStats       `json:"quotas"`
	// Lost counts GPU contexts that faults and limits ended, by gpu.LostCause.
	Lost map[string]uint64 `json:"lost"`
}

func (g *Group) enter(s *Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.live == nil {
		g.live = map[*Session]struct{}{}
	}
	g.live[s] = struct{}{}
	g.count++
}

func (g *Group) leave(s *Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.live, s)
	g.closed = add(g.closed, s.count.snapshot())
}

// lose counts a GPU context that was lost.
func (g *Group) lose(cause gpu.LostCause) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == nil {
		g.lost = map[string]uint64{}
	}
	g.lost[cause.String()]++
}

// Stats reads the counters.
func (g *Group) Stats() GuestStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := GuestStats{Sessions: g.count, Total: g.closed, Clients: []ClientStats{}, Quotas: g.quotaStats(), Lost: maps.Clone(g.lost)}
	for s := range g.live {
		c := s.count.snapshot()
		st.Total = add(st.Total, c)
		st.Clients = append(st.Clients, ClientStats{s.label, time.Since(s.start), c})
	}
	slices.SortFunc(st.Clients, func(a, b ClientStats) int { return strings.Compare(a.Client, b.Client) })
	return st
}

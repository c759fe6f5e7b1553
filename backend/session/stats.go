package session

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/file"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/hypercall"
	"pvdrm/internal/sample"
)

// counters of a session. The pump adds to them; all goroutines may read them.
type counters struct {
	ops                         [hypercall.Rows]opCounters
	multicalls, largest         atomic.Uint64
	grants, grantedBytes, pages atomic.Uint64
	batches, sleeps             atomic.Uint64
	polling, sleeping           atomic.Int64 // nanoseconds
}

// opCounters are those of one operation.
type opCounters struct{ requests, errors atomic.Uint64 }

// burst counts the requests that were there at once, by operation.
type burst struct {
	of   [hypercall.Rows]uint64
	rows uint64 // a bit for each row that is not 0
}

const _ = uint(64 - hypercall.Rows) // there are bits enough

// add counts a request.
func (b *burst) add(op hypercall.Op) {
	row := op.Row()
	b.of[row]++
	b.rows |= 1 << row
}

// took counts a burst of n requests, and empties it.
func (c *counters) took(n uint64, b *burst) {
	for ; b.rows != 0; b.rows &= b.rows - 1 {
		row := bits.TrailingZeros64(b.rows)
		c.ops[row].requests.Add(b.of[row])
		b.of[row] = 0
	}
	c.multicalls.Add(1)
	if n > c.largest.Load() {
		c.largest.Store(n) // the pump alone stores it
	}
}

// addOps adds the counters of operations to list, which has a row for each.
func (c *counters) addOps(list []OpStats) {
	for row := range c.ops {
		list[row].Requests += c.ops[row].requests.Load()
		list[row].Errors += c.ops[row].errors.Load()
	}
}

// snapshot reads the counters; the exits are the carrier's to know.
func (c *counters) snapshot() hypercall.Counters {
	var requests uint64
	for row := range c.ops {
		requests += c.ops[row].requests.Load()
	}
	return hypercall.Counters{
		Requests: requests, Multicalls: c.multicalls.Load(), LargestMulticall: c.largest.Load(),
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

// Group holds the sessions of one guest: its quotas and its statistics. The zero value is
// ready. Its lock is held for a few instructions, and no other is taken under it.
type Group struct {
	file.Guest
	sampler sample.Sampler

	mu     sync.Mutex
	live   map[*Session]struct{}
	closed hypercall.Counters
	ops    []OpStats         // of closed sessions, nil before the first
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
	Quotas   []quota.Stats      `json:"quotas"`
	// Operations has a row for each operation of the ring, and one for requests of unknown ones.
	Operations []OpStats `json:"operations"`
	// Lost counts GPU contexts that faults and limits ended, by gpu.LostCause.
	Lost map[string]uint64 `json:"lost"`
}

// OpStats counts the requests of one operation.
type OpStats struct {
	Operation string `json:"operation"` // the row's name
	Requests  uint64 `json:"requests"`
	Errors    uint64 `json:"errors"` // requests that failed
}

// noOps returns a row for each operation.
func noOps() []OpStats {
	list := make([]OpStats, hypercall.Rows)
	for row := range list {
		list[row].Operation = hypercall.RowName(row)
	}
	return list
}

// Logger returns a logger for what the guest causes. All that it returns share one count of
// what the guest has caused, see sample.Sampler; they may be wrapped once more.
func (g *Group) Logger(log *zap.Logger) *zap.Logger { return g.sampler.Wrap(log) }

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
	if g.ops == nil {
		g.ops = noOps()
	}
	s.count.addOps(g.ops)
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

// clients lists the files whose owners gave the number of a process, in the order of these, and no
// more than one answer holds.
func (g *Group) clients() []hypercall.Client {
	g.mu.Lock()
	live := slices.Collect(maps.Keys(g.live))
	g.mu.Unlock()
	var list []hypercall.Client
	for _, s := range live {
		if owner := s.owner.Load(); owner != 0 {
			compute, copies, known := s.file.Busy()
			c := hypercall.Client{Process: owner, VRAM: s.file.Held(), ComputeNS: uint64(compute), CopyNS: uint64(copies)}
			if known {
				c.Timed = 1
			}
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b hypercall.Client) int { return cmp.Compare(a.Process, b.Process) })
	return list[:min(len(list), hypercall.MaxClients)]
}

// Stats reads the counters.
func (g *Group) Stats() GuestStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := GuestStats{Sessions: g.count, Total: g.closed, Clients: []ClientStats{}, Quotas: g.Set.Stats(), Lost: maps.Clone(g.lost)}
	if st.Operations = slices.Clone(g.ops); g.ops == nil {
		st.Operations = noOps()
	}
	for s := range g.live {
		s.count.addOps(st.Operations)
		c := s.count.snapshot()
		st.Total = add(st.Total, c)
		st.Clients = append(st.Clients, ClientStats{s.label, time.Since(s.start), c})
	}
	slices.SortFunc(st.Clients, func(a, b ClientStats) int { return strings.Compare(a.Client, b.Client) })
	return st
}

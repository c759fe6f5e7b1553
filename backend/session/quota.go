package session

import (
	"fmt"
	"sync/atomic"
	"syscall"
)

// Resource is something that a guest may have so much of, all its DRM files
// together.
type Resource int

// Resources, with the errno of a request that would exceed them.
const (
	VRAM       Resource = iota // bytes of device memory: ENOMEM
	Granted                    // bytes of granted pages in objects: ENOMEM
	Contexts                   // open DRM files: EBUSY, as the errno of opening
	Channels                   // EBUSY
	Modules                    // ENOSPC
	ModuleText                 // bytes of module sources: ENOSPC
	Queued                     // batches that were accepted and have not ended: EBUSY
	Resources                  // their number
)

var resources = [Resources]struct {
	name  string
	errno syscall.Errno
	max   uint64 // by default
}{
	VRAM:       {"vram", syscall.ENOMEM, 1 << 46},
	Granted:    {"granted", syscall.ENOMEM, 64 << 30},
	Contexts:   {"contexts", syscall.EBUSY, 256},
	Channels:   {"channels", syscall.EBUSY, 2048},
	Modules:    {"modules", syscall.ENOSPC, 4096},
	ModuleText: {"module-text", syscall.ENOSPC, 256 << 20},
	Queued:     {"queued", syscall.EBUSY, 16 * maxInFlight},
}

func (r Resource) String() string { return resources[r].name }

// Bytes reports whether the resource is counted in bytes.
func (r Resource) Bytes() bool { return r == VRAM || r == Granted || r == ModuleText }

// Limits say how much a guest may have. 0 stands for the default, which an
// ordinary guest does not meet; for VRAM that is what the device has.
type Limits [Resources]uint64

// ResourceByName finds a resource by its name, such as "vram".
func ResourceByName(name string) (Resource, bool) {
	for r := range Resources {
		if r.String() == name {
			return r, true
		}
	}
	return 0, false
}

// quota is how much of one resource a guest has.
type quota struct {
	max           uint64
	used, refused atomic.Uint64
}

// limit is the most that may be used.
func (q *quota) limit(r Resource) uint64 {
	if q.max == 0 {
		return resources[r].max
	}
	return q.max
}

// Take takes n of a resource, or fails with the resource's errno.
func (g *Group) Take(r Resource, n uint64) error {
	q, most := &g.quotas[r], g.quotas[r].limit(r)
	for {
		used := q.used.Load()
		if n > most || used > most-n {
			q.refused.Add(1)
			return fmt.Errorf("the guest has %d of %d %s and wants %d more: %w", used, most, r, n, resources[r].errno)
		}
		if q.used.CompareAndSwap(used, used+n) {
			return nil
		}
	}
}

// Give returns n that were taken.
func (g *Group) Give(r Resource, n uint64) { g.quotas[r].used.Add(-n) }

// SetLimits bounds what the guest may have. It must be called before its first session.
func (g *Group) SetLimits(l Limits) {
	for r, max := range l {
		g.quotas[r].max = max
	}
}

// charge takes n of a resource for this session until it is discharged, or the
// session ends. Only the pump may call it, once it runs.
func (s *Session) charge(r Resource, n uint64) error {
	if err := s.group.Take(r, n); err != nil {
		return err
	}
	s.held[r] += n
	return nil
}

// discharge gives back what was charged.
func (s *Session) discharge(r Resource, n uint64) {
	s.held[r] -= n
	s.group.Give(r, n)
}

// dischargeAll gives back what the session still holds.
func (s *Session) dischargeAll() {
	for r, n := range s.held {
		s.discharge(Resource(r), n)
	}
}

// QuotaStats is how much of a resource a guest has.
type QuotaStats struct {
	Resource string `json:"resource"`
	Used     uint64 `json:"used"`
	Limit    uint64 `json:"limit"`
	Refused  uint64 `json:"refused"` // requests
}

// quotaStats lists all resources.
func (g *Group) quotaStats() []QuotaStats {
	list := make([]QuotaStats, 0, Resources)
	for r := range Resources {
		q := &g.quotas[r]
		list = append(list, QuotaStats{r.String(), q.used.Load(), q.limit(r), q.refused.Load()})
	}
	return list
}

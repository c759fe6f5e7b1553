// Package quota bounds what a guest may have of the backend and its device: memory,
// channels, modules and the like, all its DRM files and renderings together. A component that makes
// something for the guest charges it first, so a quota is never exceeded.
//
// A Set belongs to a guest and may be used from any goroutine. An Account is the part of a
// Set that one file holds; its owner is the only one to use it.
package quota

import (
	"fmt"
	"sync/atomic"
	"syscall"
)

// Resource is something that a guest may have a limited amount of.
type Resource int

// Resources, with the errno of a request that would exceed them.
const (
	VRAM         Resource = iota // bytes of device memory: ENOMEM
	Granted                      // bytes of granted pages in objects: ENOMEM
	Contexts                     // open DRM files: EBUSY, as the errno of opening
	Channels                     // EBUSY
	Modules                      // ENOSPC
	ModuleText                   // bytes of module sources: ENOSPC
	Queued                       // batches that were accepted and have not ended: EBUSY
	QueuedBytes                  // of the backend's memory that these take: EBUSY
	ModuleImage                  // bytes of machine code that the guest brought: ENOSPC
	ModuleMemory                 // bytes of the backend's memory for modules and their compilation: ENOSPC
	Functions                    // ids of kernels: ENOSPC
	Objects                      // GEM objects: ENOSPC
	Runs                         // pieces of host memory that granted pages lie in: ENOMEM
	Resources                    // their number
)

var resources = [Resources]struct {
	name  string
	errno syscall.Errno
	most  uint64 // by default
	bytes bool   // counted in bytes
}{
	VRAM:         {name: "vram", errno: syscall.ENOMEM, most: 1 << 46, bytes: true},
	Granted:      {name: "granted", errno: syscall.ENOMEM, most: 64 << 30, bytes: true},
	Contexts:     {name: "contexts", errno: syscall.EBUSY, most: 256},
	Channels:     {name: "channels", errno: syscall.EBUSY, most: 2048},
	Modules:      {name: "modules", errno: syscall.ENOSPC, most: 4096},
	ModuleText:   {name: "module-text", errno: syscall.ENOSPC, most: 64 << 20, bytes: true},
	Queued:       {name: "queued", errno: syscall.EBUSY, most: 16 << 10},
	QueuedBytes:  {name: "queued-bytes", errno: syscall.EBUSY, most: 16 << 20, bytes: true},
	ModuleImage:  {name: "module-image", errno: syscall.ENOSPC, most: 4 << 30, bytes: true},
	ModuleMemory: {name: "module-memory", errno: syscall.ENOSPC, most: 512 << 20, bytes: true},
	Functions:    {name: "functions", errno: syscall.ENOSPC, most: 1 << 16},
	Objects:      {name: "objects", errno: syscall.ENOSPC, most: 1 << 16},
	Runs:         {name: "runs", errno: syscall.ENOMEM, most: 1 << 18},
}

func (r Resource) String() string { return resources[r].name }

// Bytes reports whether the resource is counted in bytes.
func (r Resource) Bytes() bool { return resources[r].bytes }

// ByName finds a resource by its name, such as "vram".
func ByName(name string) (Resource, bool) {
	for r := range Resources {
		if r.String() == name {
			return r, true
		}
	}
	return 0, false
}

// Limits bound each resource. 0 stands for the default, which an ordinary guest does not
// meet; for VRAM that is what the device has.
type Limits [Resources]uint64

// Of returns the limit of a resource, the default where none is set.
func (l Limits) Of(r Resource) uint64 {
	if l[r] == 0 {
		return resources[r].most
	}
	return l[r]
}

// Set holds the quotas of one guest. The zero value has the default limits.
type Set struct {
	limits        Limits
	used, refused [Resources]atomic.Uint64
}

// SetLimits sets the limits. It must be called before anything is taken.
func (s *Set) SetLimits(l Limits) { s.limits = l }

// Limit returns the most that may be used of a resource.
func (s *Set) Limit(r Resource) uint64 { return s.limits.Of(r) }

// Used returns how much of a resource is taken.
func (s *Set) Used(r Resource) uint64 { return s.used[r].Load() }

// Left returns how much of a resource may still be taken.
func (s *Set) Left(r Resource) uint64 {
	used, most := s.used[r].Load(), s.limits.Of(r)
	return most - min(used, most)
}

// Take takes n of a resource, or fails with the resource's errno.
func (s *Set) Take(r Resource, n uint64) error {
	most := s.limits.Of(r)
	for {
		used := s.used[r].Load()
		if n > most || used > most-n {
			s.refused[r].Add(1)
			return fmt.Errorf("the guest has %d of %d %s and wants %d more: %w", used, most, r, n, resources[r].errno)
		}
		if s.used[r].CompareAndSwap(used, used+n) {
			return nil
		}
	}
}

// Give returns n that were taken.
func (s *Set) Give(r Resource, n uint64) { s.used[r].Add(-n) }

// Stats describes how much of a resource a guest has.
type Stats struct {
	Resource string `json:"resource"`
	Used     uint64 `json:"used"`
	Limit    uint64 `json:"limit"`
	Refused  uint64 `json:"refused"` // requests
}

// Stats lists all resources.
func (s *Set) Stats() []Stats {
	list := make([]Stats, 0, Resources)
	for r := range Resources {
		list = append(list, Stats{Resource: r.String(), Used: s.used[r].Load(), Limit: s.limits.Of(r), Refused: s.refused[r].Load()})
	}
	return list
}

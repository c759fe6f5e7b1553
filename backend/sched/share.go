package sched

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Bounds of a Share.
const (
	MaxWeight = 10000
	// MinCap is the smallest cap, as a part of the engine's time.
	MinCap = 0.001
	// MaxPriority is the highest priority.
	MaxPriority = 100
	// MinSLA and MaxSLA bound an SLA that is not 0.
	MinSLA = time.Millisecond
	MaxSLA = time.Minute
)

// ErrShare is the error of an invalid Share.
var ErrShare = errors.New("share not allowed")

// Share is the part of an engine's time to which a guest is entitled. The zero value is weight 1.
type Share struct {
	// Weight is relative to the weights of the other guests that are active, 1
	// to MaxWeight. 0 stands for 1.
	Weight uint32
	// Cap is the most that the guest may use, as a part of the engine's time (0
	// to 1), also when the engine would be idle otherwise. 0 stands for no cap.
	Cap float64
	// Reserve is the least that the guest is entitled to while it is active, as
	// a part of the engine's time, however heavy the others are. The reserves
	// of all guests of an engine are at most 1 together.
	Reserve float64
	// Class is the kind of service that the guest needs. Policies with classes
	// (elastic) use it.
	Class Class
	// Priority is 0 to MaxPriority; guests with a higher one go first under a
	// policy with priorities (priority).
	Priority uint32
	// SLA bounds the time for which a guest of class Latency waits for a result; 0
	// stands for DefaultSLA.
	SLA time.Duration
}

// Check returns an error if a share is invalid.
func (s Share) Check() error {
	_, err := s.normal()
	return err
}

// normal fills in defaults and checks the rest.
func (s Share) normal() (Share, error) {
	if s.Weight == 0 {
		s.Weight = 1
	}
	switch {
	case s.Weight > MaxWeight:
		return s, fmt.Errorf("%w: weight %d; choose 1 to %d", ErrShare, s.Weight, MaxWeight)
	case math.IsNaN(s.Cap) || s.Cap < 0 || s.Cap > 1 || s.Cap > 0 && s.Cap < MinCap:
		return s, fmt.Errorf("%w: cap %g; choose 0 (none) or %g to 1", ErrShare, s.Cap, MinCap)
	case math.IsNaN(s.Reserve) || s.Reserve < 0 || s.Reserve > 1:
		return s, fmt.Errorf("%w: reserve %g; choose 0 to 1", ErrShare, s.Reserve)
	case s.Cap > 0 && s.Reserve > s.Cap:
		return s, fmt.Errorf("%w: reserve %g is more than the cap %g", ErrShare, s.Reserve, s.Cap)
	case int(s.Class) >= len(classNames):
		return s, fmt.Errorf("%w: %v; choose %s", ErrShare, s.Class, strings.Join(classNames, ", "))
	case s.Priority > MaxPriority:
		return s, fmt.Errorf("%w: priority %d; choose 0 to %d", ErrShare, s.Priority, MaxPriority)
	case s.SLA != 0 && (s.SLA < MinSLA || s.SLA > MaxSLA):
		return s, fmt.Errorf("%w: SLA %v; choose 0 (%v) or %v to %v", ErrShare, s.SLA, DefaultSLA, MinSLA, MaxSLA)
	case s.SLA != 0 && s.Class != Latency:
		return s, fmt.Errorf("%w: an SLA is for class %v; class %v has none", ErrShare, Latency, s.Class)
	}
	return s, nil
}

// divide sets the fraction of each guest: its part of the engine's time when all
// of them want as much as they can get. Each gets time by weight, but no less
// than its reserve and no more than its cap. The fractions add up to 1, or to
// the sum of the caps if that is less.
func divide(guests []*Guest) {
	sum, bounded := 0.0, false
	for _, g := range guests {
		sum += float64(g.Share.Weight)
		bounded = bounded || g.Share.Reserve > 0 || g.Share.Cap > 0
	}
	for _, g := range guests {
		g.fraction = float64(g.Share.Weight) / sum
	}
	if !bounded {
		return
	}
	// The fraction for each unit of weight is a number between 0, where all are
	// at their reserves, and 1, where all are at their caps. The sum grows with
	// it, so halving finds where it is 1.
	low, high := 0.0, 1.0
	for range 60 {
		unit := (low + high) / 2
		sum = 0
		for _, g := range guests {
			g.fraction = min(max(unit*float64(g.Share.Weight), g.Share.Reserve), g.most())
			sum += g.fraction
		}
		if sum < 1 {
			low = unit
		} else {
			high = unit
		}
	}
}

// most returns the largest part of the engine's time that the guest may have.
func (g *Guest) most() float64 {
	if g.Share.Cap > 0 {
		return g.Share.Cap
	}
	return 1
}

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sched"
)

// service is the part of a guest's share that policies with classes look at.
type service struct {
	class    sched.Class
	priority uint32
	sla      time.Duration
}

func (s *service) add(fl *pflag.FlagSet) {
	fl.TextVar(&s.class, "class", sched.Batch, "class at the arbiter, which the policy elastic looks at: "+strings.Join(sched.ClassNames(), " or "))
	fl.Uint32Var(&s.priority, "priority", 0, fmt.Sprintf("priority at the arbiter, which the policy priority looks at: 0 to %d, higher goes first", sched.MaxPriority))
	fl.DurationVar(&s.sla, "sla", 0, fmt.Sprintf("of class latency: how long it may wait for a result; 0 is %v", sched.DefaultSLA))
}

// change notes in c those that were given.
func (s *service) change(fl *pflag.FlagSet, c *arbiter.ShareChange) {
	if fl.Changed("class") {
		c.Class = &s.class
	}
	if fl.Changed("priority") {
		c.Priority = &s.priority
	}
	if fl.Changed("sla") {
		c.SLA = &s.sla
	}
}

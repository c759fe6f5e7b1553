package main

import (
	"fmt"
	"strconv"
	"strings"

	"pvdrm/backend/arbiter"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// promisable are the resources of which an arbiter promises amounts, with their fields.
var promisable = []struct {
	resource quota.Resource
	get      func(a *arbiter.Amounts) uint64
	set      func(a *arbiter.Amounts, n uint64)
}{
	{resource: quota.Channels, get: func(a *arbiter.Amounts) uint64 { return uint64(a.Channels) }, set: func(a *arbiter.Amounts, n uint64) { a.Channels = uint32(n) }},
	{resource: quota.Contexts, get: func(a *arbiter.Amounts) uint64 { return uint64(a.Contexts) }, set: func(a *arbiter.Amounts, n uint64) { a.Contexts = uint32(n) }},
	{resource: quota.VRAM, get: func(a *arbiter.Amounts) uint64 { return a.VRAM }, set: func(a *arbiter.Amounts, n uint64) { a.VRAM = n }},
}

// promisableNames lists what amounts are made of.
func promisableNames() string {
	var names []string
	for _, p := range promisable {
		names = append(names, p.resource.String())
	}
	return strings.Join(names, ", ")
}

// parseAmounts reads amounts such as channels=48,vram=8G from a flag.
func parseAmounts(flag string, values []string) (a arbiter.Amounts, err error) {
	for _, v := range values {
		name, value, _ := strings.Cut(v, "=")
		known := false
		for _, p := range promisable {
			if p.resource.String() != name {
				continue
			}
			known = true
			var n uint64
			if p.resource.Bytes() {
				if n, err = parseBytes(value); err == nil && n%arbiter.MiB != 0 {
					err = fmt.Errorf("%q is no multiple of 1M", value)
				}
			} else if n, err = strconv.ParseUint(value, 10, 31); err == nil && n == 0 {
				err = fmt.Errorf("choose at least 1")
			}
			if err != nil {
				return a, usageError{fmt.Errorf("--%s %s: %w", flag, v, err)}
			}
			p.set(&a, n)
		}
		if !known {
			return a, usageError{fmt.Errorf("--%s: %q is none of %s", flag, name, promisableNames())}
		}
	}
	return a, nil
}

// needs is what the guest needs of a GPU by its quotas; amounts that have none are the arbiter's to
// choose.
func needs(l quota.Limits) (a arbiter.Amounts) {
	for _, p := range promisable {
		n := l[p.resource]
		if p.resource.Bytes() {
			n = (n + arbiter.MiB - 1) / arbiter.MiB * arbiter.MiB
		}
		p.set(&a, n)
	}
	return a
}

// promised lowers quotas to what an arbiter has promised for the guest of a device.
func promised(l quota.Limits, device gpu.Device) quota.Limits {
	gated, ok := device.(gatedDevice)
	if !ok {
		return l
	}
	a := gated.gate.Promised()
	for _, p := range promisable {
		if n := p.get(&a); n > 0 && (l[p.resource] == 0 || n < l[p.resource]) {
			l[p.resource] = n
		}
	}
	return l
}

// promisedText says how much of a GPU's capacity is promised.
func promisedText(promised, capacity arbiter.Amounts) string {
	var parts []string
	for _, p := range promisable {
		of := p.get(&capacity)
		switch {
		case of == 0:
		case p.resource.Bytes():
			parts = append(parts, fmt.Sprintf("%v %d of %d MiB", p.resource, p.get(&promised)/arbiter.MiB, of/arbiter.MiB))
		default:
			parts = append(parts, fmt.Sprintf("%v %d of %d", p.resource, p.get(&promised), of))
		}
	}
	return strings.Join(parts, ", ")
}

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pvdrm/frontend"
)

// deviceList is the value of --device: one device, or for a guest several, separated by commas. After
// the first, a number alone is one of the same kind: cuda:0,1.
type deviceList struct{ of *deviceFlags }

// String is part of pflag.Value.
func (l deviceList) String() string {
	if l.of == nil { // pflag makes a zero value
		return ""
	}
	text := l.of.device.String()
	for i := range l.of.more {
		text += "," + l.of.more[i].String()
	}
	return text
}

// Type is part of pflag.Value.
func (deviceList) Type() string { return "NAME[:N][,...]" }

// Set is part of pflag.Value.
func (l deviceList) Set(s string) error {
	var all []deviceName
	for word := range strings.SplitSeq(s, ",") {
		if len(all) == frontend.MaxDevices {
			return fmt.Errorf("more than %d devices", frontend.MaxDevices)
		}
		if _, err := strconv.ParseUint(word, 10, 31); err == nil && len(all) > 0 {
			word = all[len(all)-1].kind().name + ":" + word
		}
		var n deviceName
		if err := n.Set(word); err != nil {
			return err
		}
		if slices.Contains(all, n) {
			return fmt.Errorf("%s is named twice", &n)
		}
		all = append(all, n)
	}
	l.of.device, l.of.more = all[0], all[1:]
	return nil
}

// checkSeveral refuses several devices where there can only be one.
func (d *deviceFlags) checkSeveral() error {
	switch {
	case len(d.more) == 0:
		return nil
	case !d.several:
		return usageError{fmt.Errorf("--device %s: only the guests of pvdrm run and pvdrm up can have several devices; name one", deviceList{d})}
	case d.arbiter != "" && len(d.arbiters()) != 1 && len(d.arbiters()) != len(d.more)+1:
		return usageError{fmt.Errorf("--device %s: give --arbiter one socket, of an arbiter that shares them all (pvdrm arbiter --gpus), or a socket for each device, separated by commas", deviceList{d})}
	case d.place >= 0:
		return usageError{fmt.Errorf("--device %s: --arbiter-gpu is for one device; several have the numbers that --device gives them", deviceList{d})}
	case d.arbiter != "" && len(d.arbiters()) == 1 && !d.inOrder && d.sameNumbers():
		return usageError{fmt.Errorf("--device %s: two devices have one number, which is their GPU at the arbiter; give --arbiter a socket for each device, separated by commas", deviceList{d})}
	}
	return nil
}

// sameNumbers reports whether two devices, of two kinds, have the same number.
func (d *deviceFlags) sameNumbers() bool {
	numbers := map[int]bool{d.device.number: true}
	for _, n := range d.more {
		if numbers[n.number] {
			return true
		}
		numbers[n.number] = true
	}
	return false
}

// arbiters are the sockets of the arbiters of several devices.
func (d *deviceFlags) arbiters() []string { return strings.Split(d.arbiter, ",") }

// each returns the flags for a backend of each device. Software GPUs share the memory that one would
// have by default. At the arbiters, or at one that shares all of them, the guest has one name, and otherwise each backend its own.
func (d *deviceFlags) each() []deviceFlags {
	names := append([]deviceName{d.device}, d.more...)
	all := make([]deviceFlags, len(names))
	for i, n := range names {
		one := *d
		one.device, one.more = n, nil
		if len(names) == 1 {
			all[i] = one
			continue
		}
		const unit = 64 << 20
		if kind := n.kind(); d.vram == "" && kind.private {
			one.vram = strconv.FormatUint(max(kind.memory()/uint64(len(names))/unit*unit, unit), 10)
		}
		if at := d.arbiters(); d.arbiter != "" && len(at) == 1 {
			one.place = n.number
			if d.inOrder {
				one.place = i
			}
		} else if d.arbiter != "" {
			one.arbiter = at[i]
		} else if i > 0 {
			one.guest = fmt.Sprintf("%s-%d", d.guest, i)
		}
		all[i] = one
	}
	return all
}

// Package gputest is the conformance suite of gpu.Device: what the doc
// comments of package gpu promise, each promise a subtest.
//
// Every subtest opens a device of its own and closes it at its end; nothing is
// shared between them, and the suite starts no goroutine that outlives its
// subtest. Nothing is asserted about time.
package gputest

import (
	"slices"
	"testing"

	"pvdrm/gpu"
)

// Run tests the devices that open makes. The device needs 64 MiB of VRAM, eight
// channels and no other user. Run closes each device; open must not. Where groups
// are named, only those of the suite run: for a device of which a part is tested.
func Run(t *testing.T, open func(t *testing.T) gpu.Device, groups ...string) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"properties", propertyTests},
		{"memory", memoryTests},
		{"map", mapTests},
		{"copy", copyTests},
		{"fill", fillTests},
		{"timestamp", timestampTests},
		{"words", wordTests},
		{"channel", channelTests},
		{"module", moduleTests},
		{"launch", launchTests},
		{"signal", signalTests},
		{"fault", faultTests},
		{"close", closeTests},
		{"model", modelTests},
		{"preempt", preemptTests},
		{"revoke", revokeTests},
		{"snapshot", snapshotTests},
	} {
		if len(groups) > 0 && !slices.Contains(groups, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) { test.run(newRig(t, open)) })
			}
		})
	}
}

// test is one subtest.
type test struct {
	name string
	run  func(*rig)
}

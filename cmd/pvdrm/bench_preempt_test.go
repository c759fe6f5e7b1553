package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/suite/preempt"
)

// The endless kernel goes on at the end of the gap in which a short one ran; one that ran in no gap
// says nothing.
func TestResumed(t *testing.T) {
	probes := []preempt.Probe{{At: 5}, {At: 110}, {At: 120}, {At: 150}, {At: 230}, {At: 400}}
	gaps := []preempt.Gap{{From: 20, To: 30}, {From: 100, To: 130}, {From: 200, To: 260}}
	after, lost := resumed(probes, gaps)
	require.Equal(t, []time.Duration{20, 10, 30}, after)
	require.Equal(t, 3, lost)
}

// Package abi is what GLoop kernels and their host runtimes share: the layouts of gloop_abi.h
// (frontend/gloop/device) in Go, how requests are decoded, and the protocol of slots.
//
// # Slots
//
// A block has 64 slots, each for a callback, and for a request if it waits for one. The words of
// Block have one writer each: the device writes Posted, Report and Requests, the host writes Done
// and Results. For a request the device writes Requests[i], a fence, and then changes bit i of
// Posted. The host sees that the bit differs from what it has taken, copies the request, serves it,
// writes Results[i], and then changes bit i of Done. The device sees that this bit differs from what
// it has taken, reads the result and runs the callback; only then is the slot free again.
//
// The kernel is not trusted: it can write any of its own words and the host's at any time, since
// pages have no owner. Table takes each request once, decodes the copy, and keeps the host's own
// state to itself, so that a kernel that lies harms only its own program.
//
// # Locks
//
// Table.mu guards what the host has taken and the words it writes. Nothing is called while it is held.
package abi

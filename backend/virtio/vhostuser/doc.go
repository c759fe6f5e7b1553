// Package vhostuser serves one virtio device to a virtual machine monitor over
// the vhost-user protocol: this process is the back end, QEMU the front end.
//
// A Server accepts one front end at a time on a Unix socket, and the next one
// when that is gone. A connection is a session; it owns the guest's memory table
// and one queue for each virtqueue. Only split virtqueues are spoken.
//
// Goroutines. Each session has one that reads messages, and each running queue
// has one worker that takes chains from the ring and hands them to the Device.
// A chain may be completed from any goroutine, at any time and in any order.
//
// Locks. queue.mu guards all of a queue and is a leaf: nothing is called with it
// held except methods of hostmem. A session's own fields belong to its goroutine.
//
// Everything that the guest or the front end says is checked. A front end that
// breaks the protocol is disconnected; a guest that breaks a ring has that ring
// stopped until it resets the device.
package vhostuser

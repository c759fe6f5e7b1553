// Package vfiouser shows a PCI device to a virtual machine by the vfio-user protocol, version 0.0, which
// QEMU 11.1 speaks as a client (-device vfio-user-pci; QEMU's documentation, "vfio-user Protocol
// Specification"). Accesses of the device's regions arrive as messages, each answered before the client
// goes on; regions, or areas of them, that have a file are mapped into the client and arrive not at all.
// The client gives the memory of the machine as descriptors, for what the device reads and writes there.
//
// # Trust
//
// The client is hostile: a machine that has taken over its monitor. A message is copied once, its size
// and descriptors are bounded before anything is allocated, and one that breaks the protocol ends the
// connection. Memory is mapped only of memfds that are sealed against shrinking (package hostmem), and at
// most MaxMaps at a time. A request that the device refuses is answered with an errno.
//
// # Who owns what
//
// Serve has one goroutine, which reads, calls the Device and answers. Nothing else touches a connection.
package vfiouser

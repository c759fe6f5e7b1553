// Package session serves one DRM file of a guest: it consumes the ring, validates
// every request, and drives a context of the GPU device with it.
//
// A session has one goroutine, the pump, which owns everything in Session that
// is not marked otherwise: the ends of the ring, the tables of objects, modules
// and channels. Others reach it in three ways, none of which blocks: Kick wakes
// it, Revoke hands it the id of a grant that the guest took back, and the
// device's completion callbacks store progress into channel records and, if
// work waits for a point, wake it. A channel that is freed is closed by a goroutine
// of its own, which hands it back.
//
// Locks: Session.mu guards the fields under it and is held for a few
// instructions; channel.mu orders the callbacks of one channel. Neither is held
// while the other is taken or while the device or the carrier is called.
package session

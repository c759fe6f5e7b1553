// Package frontend is PVDRM inside the guest: it opens a carrier to the
// backend, puts a ring into granted memory, and serves DRM ioctls by
// forwarding them over it.
//
// A File is one open DRM file. Its link owns the ring:
//
//   - link.mu guards the producing end of the request queue and the table of
//     calls that wait for a completion. It is held for the time of a few stores.
//   - Whoever waits competes for the leadership, a semaphore. The leader owns
//     the consuming end of the completion queue: it polls for a while, then
//     sleeps in the carrier, and delivers what comes in. The others wait until
//     the leader reports progress or gives the leadership up. Who makes a request
//     while nobody leads takes the leadership first and mostly has its answer
//     before anything else is needed (link.quick).
//   - File.life keeps the ring, the slab and the carrier in place: every call that
//     uses them holds it for reading, once, also while it waits. Close marks the
//     link as broken, wakes all who wait, and takes it for writing.
//   - File.mu guards the tables of objects, channels and sync objects. Lock
//     order: File.life, leadership, link.mu, and File.life, File.mu, link.mu; of the
//     locks only life is held while waiting.
package frontend

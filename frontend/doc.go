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
//     the leader reports progress or gives the leadership up.
//   - File.mu guards the tables of objects, channels and sync objects. Lock
//     order: File.mu before link.mu; no lock is held while waiting.
package frontend

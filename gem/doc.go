// Package gem holds the state of a DRM file that is about GEM: objects with the pool and the
// slab of granted pages (Objects), tables of handles and other ids (Table), sync objects
// (Syncobjs), and the allocator of GPU virtual addresses (Space). Frontend and backend use it.
//
// Nothing in it makes a call or is safe for concurrent use: its owners have the transport and
// the locks.
package gem

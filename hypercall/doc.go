// Package hypercall is the wire protocol between frontend and backend: the
// capset that carries the version, the doorbell, the memory layout of the ring
// and the lock-free protocol on it, and the messages. It makes no system calls.
// Messages carry the arguments of ioctls as package drm defines them.
//
// # Layers
//
// A session is one open DRM file. The frontend makes one granted object, the
// ring object, and names it in an attach doorbell. From then on everything
// travels as messages in two queues in that object: requests to the backend and
// completions to the frontend. Points of channels are words in the same object.
// A doorbell (the only exit of a virtual machine on the data path) is rung only
// when the other side said that it sleeps.
//
// # The ring object
//
// All numbers are little endian.
//
//	offset  size  what
//	0x000   4096  control page: counters, flags and the state; see the off* constants
//	0x1000  4096  channel records: MaxChannels (64) of ChannelRecordBytes (32) each
//	0x2000  ...   request slots, SlotBytes each
//	...     ...   completion slots
//	...     ...   bulk area, for payloads that are larger than a message
//
// A queue is an array of slots with two free-running 32-bit counters: tail,
// written by the producer, and head, written by the consumer. A message takes
// one or more consecutive slots (the last one is followed by the first) and
// starts with a Header.
//
// # Sleeping
//
// Each queue has one flag, asleep, on its own cache line. The consumer sets it
// and then looks at tail once more; the producer stores tail and then, if the
// flag is set, exchanges it for 0, and rings when the exchange returned 1. All
// of these are sequentially consistent, so one of the two always sees the other:
// no wake-up is lost, and one announcement costs at most one doorbell. The
// completion flag serves the channel records and the session state as well: the
// backend exchanges it after each store there. A flag has one owner at a time:
// threads of one side that wait together share one announcement.
//
// # Trust
//
// The memory is shared with the other side, which may be hostile: every message
// is copied out once and only the copy is looked at, counters are checked
// against the number of slots, and a queue that breaks the rules is ErrCorrupt,
// upon which the session ends.
package hypercall

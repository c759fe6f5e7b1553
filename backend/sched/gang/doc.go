// Package gang gives guests that use several devices together their turns on all of them at the same time.
//
// Kernels of such a guest wait for each other, as those of NCCL do. If the scheduler of each device decided for itself,
// a guest would hold one device while another holds the next, and both would wait. A Coordinator stands above the
// schedulers of the devices' compute engines (package sched). It decides whose turn it is; a scheduler then reserves its
// engine for that guest and excludes the others (sched.Scheduler.Reserve, Exclude).
//
// # Entities
//
// What has turns is an entity: a gang, which is a guest with a seat at two or more devices, or the rest of a device, which
// is all its guests with one seat. Within a turn of the rest the policy of the device decides. An entity has a share: a
// gang the least of those that the weights give it at its devices, since it can use no more of the others either; the rest of
// a device what its gangs leave.
//
// # Turns
//
// Weighted fair queueing over entities: the virtual time of an entity is the time of its turns, used or not, divided by
// its share. So no report of a guest is needed, and one that lies about its use gains nothing. In the order of virtual
// time each entity that wants a device and finds all of its devices free gets a turn on all of them. One that finds a
// device taken keeps its other devices from those behind it, so that it is not passed over for good. The order is total,
// so there is no circle of guests that wait for each other. Guests with one device may use what is kept until the turn begins.
//
// A turn ends when the virtual time is half a round beyond that of the others, or when the guest has had no work on any
// device for a time (Patience). It also covers devices on which the gang has nothing to do: others run there until it does.
// A guest that does not return an engine at the end of its turn is late. Until it has returned it, it pays for the time,
// and the turn of those who wait for the engine does not count.
//
//	         wants, and all devices are free            its time is over, or it has no work
//	waiting ────────────────────────────────► has turn ─────────────────────────────────► waiting
//	                                                       └── still has an engine: late, and pays until it returns it
//
// # Use
//
// The package is pure like package sched: no goroutine, lock or clock. Its caller calls Plan after each event of a compute
// engine and at the time that Plan returned, and then Next of each scheduler.
package gang

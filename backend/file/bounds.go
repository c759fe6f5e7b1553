package file

import (
	"pvdrm/gpu"

	"pvdrm/gem/quota"
)

// What a guest makes its backend allocate of private memory, each kind with the quota or
// the constant that bounds it. Machine code (ImageBytes), pages of the guest, VRAM with the page tables in it, and
// memory that clients allocate raw are not private and count elsewhere.
//
//	kind                               bound
//	sources being sent, or compiled    module-text, charged with the first part
//	syntax, operations, tables,        module-memory: gpu.ModuleMemory of the source while it
//	retained modules                   compiles, what it keeps afterwards
//	programs for modules to come       programs (package softgpu bounds them for the device)
//	machine code of kernels            machineCode (package exec bounds it for the process)
//	queued batches, decoded            queued-bytes
//	ids of kernels                     functions × functionBytes
//	GEM objects of both kinds          objects × objectBytes
//	lists of granted pages             runs × runBytes
//	mappings of an address space       mappings (package softgpu bounds them for the device)
//	files: ring, pump, tables,         contexts × contextBytes
//	idle channels
//	printf output                      output (package softgpu bounds it for the device)
//	channels: goroutine, queue         channels × channelBytes, as many as a device has
//	blocks that run: registers,        workers (package exec bounds them for the process)
//	.local, .shared
//	those of preempted launches        preempted (package softgpu bounds them for the device)
//	launches by kernels that wait      launches (package exec bounds them for the device)
//	the program itself                 processBytes
const (
	programs      = 4 << 20
	machineCode   = 14 << 20
	functionBytes = 160
	objectBytes   = 448
	runBytes      = 64
	mappings      = 10 << 20
	contextBytes  = 64 << 10
	output        = 10 << 20
	channelBytes  = 16 << 10
	maxChannels   = 64 // of a device, unless it is configured to have more
	workers       = 48 << 20
	preempted     = 24 << 20
	launches      = 8 << 20
	processBytes  = 28 << 20
)

// PrivateBytes bounds the private memory of a backend whose guest has these limits,
// whatever the guest does; VRAM and the guest's pages are not in it. It is what is alive:
// the garbage collector needs as much again as it likes between two collections, so leave
// some room when you set GOMEMLIMIT or RLIMIT_DATA by it.
func PrivateBytes(l quota.Limits) uint64 {
	most := withDefaults(l).Of
	return most(quota.ModuleText) + most(quota.ModuleMemory) + most(quota.QueuedBytes) +
		most(quota.Functions)*functionBytes + most(quota.Objects)*objectBytes + most(quota.Runs)*runBytes +
		most(quota.Contexts)*contextBytes + min(most(quota.Channels), maxChannels)*channelBytes +
		programs + machineCode + mappings + output + workers + preempted + launches + processBytes
}

// ImageBytes bounds the private memory that machine code takes while it is loaded, on a device that takes it. It is
// not part of PrivateBytes.
func ImageBytes(l quota.Limits) uint64 { return l.Of(quota.ModuleImage) }

// smallModules is what small modules, each of which takes more of its device than of its
// source, may have beside the memory that follows from the source.
const smallModules = 4 << 20

// withDefaults sets the limits that follow from others: a user who lowers the bytes of module
// sources wants less memory to be used for modules.
func withDefaults(l quota.Limits) quota.Limits {
	if l[quota.ModuleMemory] == 0 && l[quota.ModuleText] != 0 {
		l[quota.ModuleMemory] = min(quota.Limits{}.Of(quota.ModuleMemory), smallModules+gpu.ModuleMemory(min(l[quota.ModuleText], quota.Limits{}.Of(quota.ModuleText))))
	}
	return l
}

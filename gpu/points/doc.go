// Package points lets kernels of unmodified programs give the GPU away. It wraps a device: modules that come as
// PTX are rewritten when they are loaded (package rewrite, Suspend), so that their kernels look at a word at
// heads of loops, and save their state and end when it is set. A launch then becomes as many launches of the
// kernel's twin as it takes, each with the word as its signal (gpu.Launch.Signal); for the program they are
// one command. It serves devices that cannot preempt a kernel, and to compare with those that can.
//
//	Submit ──short or no twin──► the device's channel
//	   │
//	   └─► queue ─► launch the twin ─► ended? ─► next command
//	                      ▲              │ not all of it
//	                      └──────────────┘
//
// A kernel stays as it is when it cannot be rewritten, when it took less than Config.Short the last time, when the
// state of all its blocks would take more than is left of the area that each context has for that, and
// when its launch is cooperative, is in clusters, has a signal of its own or belongs to a task.
//
// # Trust
//
// The area and the words lie in the address space of the guest's context, so a guest can write there. It
// harms no one but itself: the device checks each launch as ever, each piece of a command waits for its
// turn, and the end of the context ends them all.
//
// # Ownership and locks
//
// A context owns its area and a page of words; a channel owns a goroutine while it has commands that are
// run in pieces. channel.mu may be held while a batch is submitted to the device's channel; context.mu and
// device.mu are leaves, but for calls of the device's context that make the area.
package points

// Package host runs GLoop programs: kernels that include frontend/gloop/device/gloop.h. Run launches
// the kernel, serves the files and sockets that it asks for, and launches it again until no callback
// is left. Between two launches the GPU is free for others.
//
// # Goroutines
//
// Run's own goroutine launches and waits. While a kernel runs, a poller looks at the words by which
// blocks hand over requests; each request that may block has a goroutine of its own, of which there
// are at most 64 for each physical block. Sockets wait in Go's poller (epoll). All of them end
// before Run returns.
//
// # The signal word
//
// One page of granted memory holds the word that asks the kernel to leave. The device's backend
// writes it when others want the GPU; this package does when the context of Run is cancelled, when
// Config.Relaunch is over, and when an event ends for a block that has left already. All write 1;
// this package clears it while no kernel runs.
//
// # Locks
//
// program.mu guards which blocks wait and what the main loop waits for; Pool.mu what is kept; handles.mu the table of
// files and sockets; abi.Table has a lock of its own. None is taken while another is held.
package host

// Package workers starts and ends the processes that drive a host's libraries for a backend. A
// backend that is confined can start no process, so it starts a keeper before:
//
//	backend: Keeper ────────── keeper: Serve
//	    │       orders, notices      │ starts, reaps
//	    └──── Process ─────────── worker
//	          socket, files
//
// A process ends in one of four ways, each of which closes Process.Gone:
//
//	        Start          notice of the start
//	(none) ───────► asked ─────────────────────► runs ──┬─ it exits or crashes
//	                  │                                 ├─ Process.Kill
//	                  └─ notice of a failure, or the    ├─ the keeper ends
//	                     keeper ends: Start fails       └─ the backend ends, and so does the keeper
//
// # Messages
//
// Keeper and backend share a socket of type SOCK_SEQPACKET. An order is 8 bytes: the number of the
// process to start. A notice is 16 bytes and a text: the number, u32 kind, u32 zero. The notice of
// a start brings descriptors: the socket to the worker, the files that Program.Prepare makes for the
// backend, and a pidfd, by which the backend kills the worker without the keeper's help. The text of
// the other kinds is the reason. Numbers are little-endian. Both ends are the same program, so the
// protocol has no version. Workers have no part in it.
//
// # Who confines whom
//
// This package confines nothing. A keeper enters its filter before it calls Serve, and a worker its
// own once its libraries are loaded: each user of the package has filters and limits of its own
// (package sandbox). Serve makes these system calls, which a filter of keepers must allow: sockets
// and their messages, clone, execve, waitid, pidfd_open, pidfd_send_signal, and those of Prepare.
//
// # Goroutines
//
// A Keeper has a goroutine that reads notices and ends with the keeper. Keeper.mu is locked before
// Process.mu, and no lock of another package under them. Serve runs on the main thread, since the
// kernel ends workers with the thread that started them; one goroutine waits for each worker, and
// another runs its Guard.
package workers

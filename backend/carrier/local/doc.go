// Package local is the carrier for programs on the host: the same ring as in a
// virtual machine, over a Unix socket for what is rare, memfds for granted
// memory and pipes for doorbells.
//
// A Server accepts connections; each is one DRM file. The connection's reader
// goroutine owns the socket, a second one waits for doorbells, and the session
// has its pump. The reader answers one request after the other. It waits for its own
// session where a request demands that (LocalFree: until the GPU no longer uses the
// pages) and never for another connection's; that its client hangs up ends such a wait.
// conn.mu guards the table of memory. While there is large memory to be made present,
// the server has one more goroutine (populator). Lock order: Server.mu before populator.mu.
//
// The clients make the memory that they grant: this process needs no means to make any.
// A descriptor of theirs may be of anything. It is looked at by what cannot wait (see
// examine) and closed otherwise; to close a file of a file system that the client itself
// serves (FUSE) may wait for the client, and then only its own connection does.
package local

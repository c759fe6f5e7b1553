// Package local is the carrier for programs on the host: the same ring as in a
// virtual machine, over a Unix socket for what is rare, memfds for granted
// memory and pipes for doorbells.
//
// A Server accepts connections; each is one DRM file. The connection's reader
// goroutine owns the socket, a second one waits for doorbells, and the session
// has its pump. conn.mu guards the table of memory. While there is large memory to
// be made present, the server has one more goroutine (populator). Lock order:
// populator.mu and Server.mu are not held together.
package local

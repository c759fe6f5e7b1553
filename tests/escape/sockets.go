package escape

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// connectToSockets makes sockets of every kind and connects them, and those that the
// process has, to all that listen on the host.
func connectToSockets(a *attacker) {
	for _, typ := range []uintptr{unix.SOCK_STREAM, unix.SOCK_SEQPACKET, unix.SOCK_DGRAM} {
		for _, path := range append([]string{""}, a.host.Sockets...) {
			fd, errno := a.call(unix.SYS_SOCKET, unix.AF_UNIX, typ, 0)
			if errno == unix.EPERM {
				break
			}
			if path == "" {
				a.escaped("socket() of type %d: descriptor %d, %v", typ, fd, errno)
			} else if a.connect(fd, path) == 0 {
				a.escaped("connected to %s", path)
			}
			a.call(unix.SYS_CLOSE, fd)
		}
	}
	for _, family := range []uintptr{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_VSOCK, unix.AF_ALG, unix.AF_PACKET} {
		a.refused(fmt.Sprint("socket() of family ", family), unix.SYS_SOCKET, family, unix.SOCK_DGRAM, 0)
	}
	for fd := range uintptr(mostDescriptors) {
		if errno := a.connect(fd, "/none"); errno != unix.EPERM {
			a.escaped("connect() of descriptor %d reached the kernel: %v", fd, errno)
		}
	}
}

func (a *attacker) connect(fd uintptr, path string) unix.Errno {
	raw := address(path)
	_, errno := a.call(unix.SYS_CONNECT, fd, a.put(raw), uintptr(len(raw)))
	return errno
}

// sendToSockets sends to sockets without a connection, as datagram sockets can, those
// of a pair included.
func sendToSockets(a *attacker) {
	pair := a.put(make([]byte, 8))
	var senders []uintptr
	if _, errno := a.call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM, 0, pair); errno == 0 {
		a.escaped("socketpair() made datagram sockets, which can send to others")
		fds := a.get(pair, 8)
		senders = append(senders, uintptr(fds[0]), uintptr(fds[4]))
	}
	made := senders
	for fd := range uintptr(mostDescriptors) {
		if a.datagram(fd) {
			a.escaped("descriptor %d is a datagram socket", fd)
			senders = append(senders, fd)
		}
	}
	for _, fd := range senders {
		for _, path := range a.host.Sockets {
			raw := address(path)
			addr := a.put(raw)
			if _, errno := a.call(unix.SYS_SENDTO, fd, addr, 0, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, addr, uintptr(len(raw))); errno == 0 {
				a.escaped("sent to %s by descriptor %d", path, fd)
			}
		}
	}
	for _, fd := range made {
		a.call(unix.SYS_CLOSE, fd)
	}
}

// datagram says whether a descriptor is a datagram socket. Others ignore addresses.
func (a *attacker) datagram(fd uintptr) bool {
	at := a.put([]byte{0, 0, 0, 0, 4, 0, 0, 0}) // the value and its length
	_, errno := a.call(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_TYPE, at, at+4)
	return errno == 0 && a.get(at, 1)[0] == unix.SOCK_DGRAM
}

// listenOnSockets gives sockets an address, so that others come to it.
func listenOnSockets(a *attacker) {
	raw := address("@pvdrm-escape")
	addr := a.put(raw)
	for fd := range uintptr(mostDescriptors) {
		a.refused(fmt.Sprint("bind() of descriptor ", fd), unix.SYS_BIND, fd, addr, uintptr(len(raw)))
		a.refused(fmt.Sprint("listen() on descriptor ", fd), unix.SYS_LISTEN, fd, 1)
	}
}

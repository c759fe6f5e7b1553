package main

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"
)

// listeners are the Unix sockets that systemd has passed this process, by path.
var listeners = sync.OnceValues(func() (map[string]*net.UnixListener, error) {
	found := map[string]*net.UnixListener{}
	for _, file := range activation.Files(true) {
		l, err := net.FileListener(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("a socket of systemd's: %w", err)
		}
		u, ok := l.(*net.UnixListener)
		if !ok {
			return nil, errors.Join(fmt.Errorf("a socket of systemd's: %s is no Unix socket", l.Addr()), l.Close())
		}
		found[u.Addr().String()] = u
	}
	return found, nil
})

// activated returns the socket at path, if systemd has passed one. Each can be had once.
func activated(network, path string) (*net.UnixListener, error) {
	all, err := listeners()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	l, ok := all[path]
	switch {
	case !ok:
		return nil, nil
	case l.Addr().Network() != network:
		return nil, fmt.Errorf("the socket %s of systemd is of type %s, and should be %s: use ListenStream= for vhost-user, statistics and the control of an arbiter, ListenSequentialPacket= for local guests and arbiters", path, l.Addr().Network(), network)
	}
	delete(all, path)
	return l, nil
}

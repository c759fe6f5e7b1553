package guestinit

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// startLoopback brings the loopback device up, by which programs of the guest reach each other. The
// guest works without it.
func startLoopback() (err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("starting the loopback device: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	lo, err := unix.NewIfreq("lo")
	if err == nil {
		lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
	}
	if err != nil {
		return fmt.Errorf("starting the loopback device: %w", err)
	}
	return nil
}

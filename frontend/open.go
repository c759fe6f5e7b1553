package frontend

import (
	"fmt"
	"os"

	"pvdrm/frontend/carrier"
	"pvdrm/frontend/carrier/local"
	"pvdrm/frontend/carrier/virtio"
)

// OpenDefault opens the backend that this process has; see DefaultCarrier.
func OpenDefault() (*File, error) {
	c, err := DefaultCarrier()
	if err != nil {
		return nil, err
	}
	return New(c)
}

// Opener opens a file on one device.
type Opener func() (*File, error)

// BoundOpeners returns what opens files on each device that this process has, for callers that are
// threads of a C program; see Config.Bound and Unlisted. The first is the device of OpenDefault.
func BoundOpeners(unlisted bool) []Opener {
	open := func(reach func() (carrier.Carrier, error)) Opener {
		return func() (*File, error) {
			cfg, err := ConfigFromEnv()
			if err != nil {
				return nil, err
			}
			c, err := reach()
			if err != nil {
				return nil, err
			}
			cfg.Bound, cfg.Unlisted = true, unlisted
			return NewConfig(c, cfg)
		}
	}
	all := []Opener{open(DefaultCarrier)}
	if os.Getenv(SocketEnv) == "" {
		for _, path := range moreNodes() {
			all = append(all, open(func() (carrier.Carrier, error) { return openNode(path) }))
		}
		return all
	}
	for i := 1; i < MaxDevices && os.Getenv(SocketEnvOf(i)) != ""; i++ {
		path := os.Getenv(SocketEnvOf(i))
		all = append(all, open(func() (carrier.Carrier, error) { return openLocal(path) }))
	}
	return all
}

// DefaultCarrier reaches the backend that this process has: the local one that
// PVDRM_SOCKET names, else the first virtio-gpu render node.
func DefaultCarrier() (carrier.Carrier, error) {
	if path := os.Getenv(SocketEnv); path != "" {
		return openLocal(path)
	}
	path, err := virtio.Find()
	if err != nil {
		return nil, fmt.Errorf("no PVDRM device: %w; in a virtual machine load virtio-gpu, on a host use `pvdrm run -- PROGRAM`", err)
	}
	return openNode(path)
}

func openNode(path string) (carrier.Carrier, error) {
	c, err := virtio.Open(path)
	if err != nil {
		return nil, err // not a nil pointer inside of an interface
	}
	return c, nil
}

// moreNodes returns the render nodes after the first that have PVDRM behind them: other virtio-gpu devices
// of the machine are not ours.
func moreNodes() (more []string) {
	all, err := virtio.FindAll()
	if err != nil {
		return nil // DefaultCarrier says what is wrong
	}
	for _, path := range all[1:min(len(all), MaxDevices)] {
		if c, err := virtio.Open(path); err == nil {
			_ = c.Close() // opened to ask only
			more = append(more, path)
		}
	}
	return more
}

func openLocal(path string) (carrier.Carrier, error) {
	c, err := local.Open(path)
	if err != nil {
		return nil, err // not a nil pointer inside of an interface
	}
	return c, nil
}

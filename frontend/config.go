package frontend

import (
	"fmt"
	"os"
	"strings"
)

// Config switches off what makes forwarding fast, to measure what each part
// brings. The zero value has everything on.
type Config struct {
	// NoPoll: neither side looks at the ring on its own. Each multicall needs a
	// doorbell, each wait an interrupt.
	NoPoll bool
	// NoMulticall: each operation has a doorbell of its own, and each map
	// operation is one page: the interface of naive para-virtualization.
	NoMulticall bool
	// NoPool: granted memory is made for each object and given back with it.
	NoPool bool

	// Separate is no switch: objects are mapped by other processes than this, by
	// descriptors (MapFD), so each has a grant of its own.
	Separate bool

	// Bound is no switch: callers are threads of a C program, whose goroutines
	// are bound to them and wait in their own way.
	Bound bool

	// Unlisted is no switch: the file is not that of a process that uses the device, but of one
	// that looks at it, so Usage does not list it, and it has no context where the backend can do without.
	Unlisted bool

	// Waits is no switch: it is called before a caller stops polling to pause or
	// to sleep; nil if nobody wants to know.
	Waits func()
}

// ConfigEnv names the environment variable with a list of switches: nopoll,
// nomulticall and nopool, separated by commas.
const ConfigEnv = "PVDRM_CONFIG"

// ConfigFromEnv reads the switches from the environment.
func ConfigFromEnv() (Config, error) {
	var c Config
	for word := range strings.SplitSeq(os.Getenv(ConfigEnv), ",") {
		switch strings.TrimSpace(word) {
		case "", "full":
		case "nopoll":
			c.NoPoll = true
		case "nomulticall":
			c.NoMulticall = true
		case "nopool":
			c.NoPool = true
		default:
			return c, fmt.Errorf("%s: unknown switch %q (want nopoll, nomulticall or nopool)", ConfigEnv, word)
		}
	}
	return c, nil
}

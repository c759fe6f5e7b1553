// Command hostile runs the attacks of package hostile on the GPU that this guest
// has, all or those named, and prints a line for each. It exits with 1 if one of
// them got what it must not have. Those that exhaust the host run only if named.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"pvdrm/frontend"
	"pvdrm/frontend/carrier"
	"pvdrm/frontend/carrier/local"
	"pvdrm/frontend/carrier/virtio"
	"pvdrm/tests/hostile"
)

func main() {
	var allowed hostile.Allowance
	seed := flag.Uint64("seed", 1, "what is random in the attacks follows from it")
	flag.Uint64Var(&allowed.ModuleText, "module-text", 64<<20, "bytes of module sources that this guest may have")
	flag.Uint64Var(&allowed.VRAM, "vram", 1<<30, "bytes of device memory that it may have")
	flag.Uint64Var(&allowed.Granted, "granted", 64<<30, "bytes of granted pages that it may have")
	flag.DurationVar(&allowed.Burst, "burst", time.Second, "how long it makes noise")
	flag.Parse()
	code := 0
	attacks := hostile.Attacks()
	if flag.NArg() > 0 {
		attacks = slices.Concat(attacks, hostile.Exhaustions(allowed), hostile.Orders())
	}
	for _, a := range attacks {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), a.Name) {
			continue
		}
		if err := a.Run(open, *seed); err != nil {
			fmt.Println("FAILED", err)
			code = 1
			continue
		}
		fmt.Println("withstood", a.Name)
	}
	os.Exit(code)
}

// open connects to the backend that this process has.
func open() (carrier.Carrier, error) {
	if path := os.Getenv(frontend.SocketEnv); path != "" {
		return local.Open(path)
	}
	path, err := virtio.Find()
	if err != nil {
		return nil, err
	}
	return virtio.Open(path)
}

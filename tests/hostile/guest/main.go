// Command hostile runs the attacks of package hostile on the GPU that this guest
// has, all or those named, and prints a line for each. It exits with 1 if one of
// them got what it must not have.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"

	"pvdrm/frontend"
	"pvdrm/frontend/carrier"
	"pvdrm/frontend/local"
	"pvdrm/frontend/virtgpu"
	"pvdrm/tests/hostile"
)

func main() {
	seed := flag.Uint64("seed", 1, "what is random in the attacks follows from it")
	flag.Parse()
	code := 0
	for _, a := range hostile.Attacks() {
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
	path, err := virtgpu.Find()
	if err != nil {
		return nil, err
	}
	return virtgpu.Open(path)
}

// Command throttle runs throttle.cu: throttle THROTTLE.ptx.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/host"
)

const blocks, steps = 240, 1000

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: throttle THROTTLE.ptx")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(file string) error {
	ptx, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	driver, err := cuda.Init(open)
	if err != nil {
		return err
	}
	defer driver.Close()
	gpu, err := driver.Device(0)
	if err != nil {
		return err
	}
	ctx, err := gpu.CreateContext()
	if err != nil {
		return err
	}
	module, err := ctx.LoadModule("throttle", ptx)
	if err != nil {
		return err
	}
	out, err := ctx.MemAlloc(4 * blocks)
	if err != nil {
		return err
	}
	if err := ctx.MemsetD32(out, 0, blocks); err != nil {
		return err
	}
	stats, err := host.Run(context.Background(), host.Config{
		Context: ctx, Module: module, Kernel: "throttle",
		Grid:  [3]uint32{blocks}, // logical blocks
		Block: [3]uint32{32},
	}, out, uint32(steps))
	if err != nil {
		return err
	}
	counts := make([]byte, 4*blocks)
	if err := ctx.MemcpyDtoH(counts, out); err != nil {
		return err
	}
	for i := range blocks {
		if n := binary.LittleEndian.Uint32(counts[4*i:]); n != steps {
			return fmt.Errorf("block %d counted to %d in place of %d", i, n, steps)
		}
	}
	fmt.Printf("%d blocks counted to %d: %d callbacks, %d launches\n", blocks, steps, stats.Callbacks, stats.Launches)
	return nil
}

// open opens the GPU of this guest: that of `pvdrm run`, or of the virtual machine.
func open() (drm.File, error) {
	file, err := frontend.OpenDefault()
	if err != nil {
		return nil, err // not a nil *frontend.File inside of an interface
	}
	return file, nil
}

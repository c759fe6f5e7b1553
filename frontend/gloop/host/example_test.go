package host_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/host"
	"pvdrm/gpu/softgpu"
)

// The echo server of docs/gloop.md runs on a software GPU of this process. In a guest, files come from
// frontend.OpenDefault instead.
func Example() {
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	driver, err := cuda.Init(func() (drm.File, error) { return native.Open(device, "echo") })
	if err != nil {
		log.Fatal(err)
	}
	defer driver.Close()
	gpu, err := driver.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	c, err := gpu.CreateContext()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Destroy()
	if err := serveEcho(c, 2); err != nil {
		log.Fatal(err)
	}
	// Output:
	// hello from client 0
	// hello from client 1
}

// serveEcho runs the server for so many clients, which it calls itself.
func serveEcho(c *cuda.Context, clients uint32) error {
	ptx, err := os.ReadFile("../../../examples/gloop/echo.ptx")
	if err != nil {
		return err
	}
	module, err := c.LoadModule("echo", ptx)
	if err != nil {
		return err
	}
	rooms, err := c.MemAllocHost(uint64(clients) * 4096) // sockets read and write it in place
	if err != nil {
		return err
	}
	called := make(chan error, 1)
	_, err = host.Run(context.Background(), host.Config{
		Context: c, Module: module, Kernel: "server", Grid: [3]uint32{1}, Block: [3]uint32{32},
		Memory: []*cuda.HostMem{rooms},
		Bound:  func(address string) { go func() { called <- call(address, clients) }() },
	}, uint32(0), rooms.DevicePtr(), clients)
	if err != nil {
		return err
	}
	return <-called
}

// call is the clients, one after the other.
func call(address string, clients uint32) error {
	for i := range clients {
		conn, err := net.Dial("tcp4", address)
		if err != nil {
			return err
		}
		said := fmt.Sprintf("hello from client %d", i)
		heard := make([]byte, len(said))
		if _, err = io.WriteString(conn, said); err == nil {
			_, err = io.ReadFull(conn, heard)
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", heard)
		if err := conn.Close(); err != nil {
			return err
		}
	}
	return nil
}

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"

	"pvdrm/frontend/cuda/cudatest"
)

// A program initializes the driver with a function that opens DRM files, makes a
// context, loads PTX, and launches a kernel on memory of the device. Here the files are
// those of a fake whose kernel add adds a number to each word; in a guest they come from
// frontend.OpenDefault.
func Example() {
	fake := cudatest.Bare()
	fake.KernelAdd()
	driver, err := Init(fake.Opener)
	if err != nil {
		log.Fatal(err)
	}
	defer driver.Close()
	device, err := driver.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	c, err := device.CreateContext()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Destroy() // frees what the context still has

	if err := addTen(c); err != nil {
		log.Fatal(err)
	}
	// Output: [11 12 13]
}

func addTen(c *Context) error {
	module, err := c.LoadModule("add.ptx", []byte("kernel add"))
	if err != nil {
		return err
	}
	add, err := module.Function("add")
	if err != nil {
		return err
	}
	words, err := c.MemAlloc(3 * 4)
	if err != nil {
		return err
	}
	host, _ := binary.Append(nil, binary.LittleEndian, []uint32{1, 2, 3})
	if err := c.MemcpyHtoD(words, host); err != nil {
		return err
	}
	one := LaunchConfig{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}}
	if err := add.Launch(one, words, uint32(3), uint32(10)); err != nil {
		return err
	}
	if err := c.MemcpyDtoH(host, words); err != nil { // waits for the launch
		return err
	}
	sums := make([]uint32, 3)
	_, err = binary.Decode(host, binary.LittleEndian, sums)
	fmt.Println(sums)
	return err
}

// Every error holds a Result, which errors.As finds.
func ExampleError() {
	driver, err := Init(cudatest.Bare().Opener)
	if err != nil {
		log.Fatal(err)
	}
	defer driver.Close()
	_, err = driver.Device(7)
	var result Result
	fmt.Println(errors.As(err, &result), result == ErrInvalidDevice)
	fmt.Println(err)
	// Output:
	// true true
	// cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (101): no such device: device 7 of 1
}

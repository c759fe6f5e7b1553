package softgpu_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

const square = `
.version 6.0
.target sm_70
.address_size 64
.visible .entry square(.param .u64 p) {
	.reg .b64 %rd<3>;
	.reg .b32 %r<4>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mad.wide.u32 %rd2, %r1, 4, %rd1;
	mul.lo.u32 %r2, %r1, %r1;
	st.global.u32 [%rd2], %r2;
	ret;
}`

// A program gets a context of a device, maps memory at addresses of its choice, loads a
// module and submits commands to a channel.
func Example() {
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 8 << 20, SMs: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	c, err := device.NewContext("example")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close() // with all that it has
	granted, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED)
	if err != nil {
		log.Fatal(err)
	}
	if err := squares(c, device.Properties().System.Base, granted); err != nil {
		log.Fatal(err)
	}
	for i := range 4 {
		fmt.Println(binary.LittleEndian.Uint32(granted[4*i:]))
	}
	// Output:
	// 0
	// 1
	// 4
	// 9
}

// squares lets four threads of a kernel write their squares to granted memory.
func squares(c gpu.Context, addr uint64, granted []byte) error {
	memory, err := c.NewSystem([][]byte{granted})
	if err != nil {
		return err
	}
	if err := c.Map(addr, memory, 0, memory.Size(), gpu.ProtRead|gpu.ProtWrite); err != nil {
		return err
	}
	module, err := c.LoadModule(context.Background(), "square.ptx", []byte(square), nil)
	if err != nil {
		return err
	}
	function, err := module.Function("square")
	if err != nil {
		return err
	}
	channel, err := c.NewChannel()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	launch := &gpu.Launch{Func: function, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{4, 1, 1},
		Params: binary.LittleEndian.AppendUint64(nil, addr)}
	if err := channel.Submit([]gpu.Command{launch}, func(r gpu.Result) { ended <- r.Err }); err != nil {
		return err
	}
	return <-ended
}

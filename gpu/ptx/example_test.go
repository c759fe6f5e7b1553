package ptx_test

import (
	"fmt"
	"log"
	"os"

	"pvdrm/gpu/ptx"
)

// Load parses and verifies a module; Print writes it as text again.
func ExampleLoad() {
	m, err := ptx.Load("k.ptx", []byte(`.version 6.0 .target sm_70 .address_size 64
		.visible .entry k(.param .u64 p) { .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; ret; }`))
	if err != nil {
		log.Fatal(err)
	}
	if err := ptx.Print(os.Stdout, m); err != nil {
		log.Fatal(err)
	}
	// Output:
	// .version 6.0
	// .target sm_70
	// .address_size 64
	//
	// .visible .entry k(
	// 	.param .u64 p
	// )
	// {
	// 	.reg .b64 %rd<2>;
	// 	ld.param.u64 %rd1, [p];
	// 	ret;
	// }
}

// A module that is wrong is refused as a whole, with the places of what is wrong.
func ExampleLoad_wrong() {
	_, err := ptx.Load("wrong.ptx", []byte(`.version 6.0
.target sm_70
.address_size 64
.visible .entry k() {
	.reg .b32 %r<2>;
	add.u32 %r1, %r1, %f1;
	ret;
}`))
	fmt.Println(err)
	// Output: wrong.ptx:6:20: error: unknown symbol '%f1'; registers are declared with .reg
}

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The filter that is compiled in was made from the table that is committed.
func TestTheFilterIsThatOfTheTable(t *testing.T) {
	table, err := os.ReadFile("../testdata/ioctls.txt")
	require.NoError(t, err)
	want, err := generate(string(table))
	require.NoError(t, err)
	have, err := os.ReadFile("../ioctls.go")
	require.NoError(t, err)
	require.Equal(t, string(want), string(have), "run go generate ./gpu/nvidia")
}

func TestGenerate(t *testing.T) {
	const head = "# a\n# driver: 1\n# columns\n"
	source, err := generate(head +
		"cuda-worker start nvidiactl 0xc020462b 0x41 3\n" +

		"cuda-worker serve nvidiactl 0xc020462a 0x2080012f 7\n" +
		"cuda-worker serve nvidiactl 0xc0104629 0x0 7\n" +
		"cuda-worker serve nvidiactl 0xc0204629 0x0 7\n" +
		"cuda-worker serve nvidia-uvm 0x22 0x0 1\n" +
		"other serve nvidia-uvm 0x23 0x0 1\n")
	require.NoError(t, err)
	text := string(source)
	require.Contains(t, text, "//\tdriver: 1\n")
	require.Contains(t, text, "{Mask: 0xffff, Value: 0x4629},   // NV_ESC_RM_FREE\n\t{Mask: 0xffff, Value: 0x462a},   // NV_ESC_RM_CONTROL\n\t{Mask: 0xffffffff, Value: 0x22}, // UVM_FREE\n}")
	require.NotContains(t, text, "0x462b", "only the worker's start needs it")
	require.Contains(t, text, "var servingControls = []uint32{\n\t0x2080012f, // NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS\n}")
	require.NotContains(t, text, "0x23", "another process")
	require.Contains(t, text, "var compilingRequests = []Request{}")
	for _, bad := range []string{
		"cuda-worker serve nvidiactl 0xc02046d3 0x0 1\n", // whatever the size of its argument
		"cuda-worker serve nvidiactl 0xc0204634 0x0 1\n",
		"cuda-worker serve nvidia-uvm 0x3e 0x0 1\n",
		"cuda-worker serve nvidia-uvm 0x29 0x0 1\n", // NV_ESC_RM_FREE, elsewhere
		"cuda-worker serve nvidiactl 0xc020462a 0x2080110b 1\n",
		"cuda-compiler serve nvidiactl 0xc020462a 0x2080012f 1\n",
		"cuda-worker serve nvidiactl\n",
		"cuda-worker serve nvidiactl many 0x0 1\n",
	} {
		_, err := generate(head + bad)
		require.Error(t, err, bad)
	}
}

// The recorder sees the calls of children, and which of them a process made before it first
// sent a message.
func TestRecorderLetsCallsGoOn(t *testing.T) {
	r := newRecorder()
	require.NoError(t, r.run([]string{"/bin/sh", "-c", "stty -a </dev/null 2>/dev/null; true"}))
	require.NotEmpty(t, r.process, "stty asks by ioctl")
	require.Empty(t, r.seen, "no device of NVIDIA's was asked")
}

package nvidia_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/gputest"
	"pvdrm/gpu/nvidia"
)

// TestExpensiveCompilation cancels one on the first NVIDIA GPU. The context that wanted it works
// meanwhile and afterwards.
func TestExpensiveCompilation(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	dev, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(chosenWorker())})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	c, err := dev.NewContext("expensive")
	require.NoError(t, err)
	compiler := compilerOf(t)
	ctx, cancel := context.WithCancel(context.Background())
	loaded := make(chan error, 1)
	go func() {
		_, err := c.LoadModule(ctx, "expensive.ptx", []byte(expensive(200_000)), nil)
		loaded <- err
	}()
	require.Eventually(t, func() bool { return processorTime(t, compiler) > time.Second }, 2*time.Minute, 10*time.Millisecond)
	for range 100 {
		m, err := c.NewVRAM(dev.Properties().VRAM.Page)
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
	if len(loaded) > 0 {
		t.Skipf("this machine compiles too fast: %v", <-loaded)
	}
	begin := time.Now()
	cancel()
	require.ErrorIs(t, <-loaded, context.Canceled)
	t.Logf("LoadModule returned %v after it was canceled", time.Since(begin))
	_, err = c.LoadModule(context.Background(), "count.ptx", []byte(countSource), nil)
	require.NoError(t, err)
	require.NoError(t, c.Err())
}

// expensive is a kernel of n instructions that depend on each other.
func expensive(n int) string {
	var b strings.Builder
	b.WriteString(".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry f(.param .u64 p)\n{\n" +
		"\t.reg .u64 %a;\n\t.reg .u32 %r<256>;\n\tld.param.u64 %a, [p];\n")
	for i := range 256 {
		fmt.Fprintf(&b, "\tld.global.u32 %%r%d, [%%a+%d];\n", i, 4*i)
	}
	for i := range n {
		fmt.Fprintf(&b, "\tmad.lo.u32 %%r%d, %%r%d, %%r%d, %%r%d;\n", i%256, (i*7+1)%256, (i*13+5)%256, (i*31+11)%256)
	}
	for i := range 256 {
		fmt.Fprintf(&b, "\tst.global.u32 [%%a+%d], %%r%d;\n", 4*i, i)
	}
	return b.String() + "\tret;\n}\n"
}

// processorTime is what a process has used.
func processorTime(t *testing.T, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks, err := strconv.Atoi(f[11]) // utime
	require.NoError(t, err)
	const tick = 10 * time.Millisecond // USER_HZ
	return time.Duration(ticks) * tick
}

// TestConformance runs the suite of all devices on the first NVIDIA GPU. It has
// endless kernels that use pages which are taken away: the driver waits for them,
// so that they end by the limit.
func TestConformance(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	gputest.Run(t, func(t *testing.T) gpu.Device {
		d, err := nvidia.New(nvidia.Config{VRAMBytes: 16 << 30, LaunchLimit: 3 * time.Second, Keeper: keeperCommand(chosenWorker())})
		require.NoError(t, err)
		return d
	})
}

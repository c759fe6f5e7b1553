package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// deviceFlags choose and configure the GPU.
type deviceFlags struct {
	device string
	vram   string
	sms    int
}

func (d *deviceFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&d.device, "device", "softgpu", "the GPU: softgpu, a software GPU that runs PTX")
	c.Flags().StringVar(&d.vram, "vram", "1G", "memory of the software GPU, bytes with a suffix K, M or G; it takes host memory only where it is written to")
	c.Flags().IntVar(&d.sms, "sms", 0, "streaming multiprocessors of the software GPU, threads of the host each; 0 means one for each processor")
}

// args are the flags as another pvdrm takes them.
func (d *deviceFlags) args() []string {
	return []string{"--device", d.device, "--vram", d.vram, "--sms", strconv.Itoa(d.sms)}
}

// open opens the device.
func (d *deviceFlags) open() (gpu.Device, error) {
	vram, err := parseBytes(d.vram)
	if err != nil {
		return nil, usageError{fmt.Errorf("--vram: %w", err)}
	}
	if d.device != "softgpu" {
		return nil, usageError{fmt.Errorf("--device: there is no device %q, only softgpu", d.device)}
	}
	return softgpu.New(softgpu.Config{VRAMBytes: vram, SMs: d.sms})
}

// parseBytes reads a number of bytes with an optional suffix K, M or G (powers of 1024).
func parseBytes(s string) (uint64, error) {
	digits, shift := s, 0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("KMG", s[n-1]); i >= 0 {
			digits, shift = s[:n-1], 10*(i+1)
		}
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || v == 0 || v > 1<<46>>shift {
		return 0, fmt.Errorf("%q is not a number of bytes such as 512M or 4G", s)
	}
	return v << shift, nil
}

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pvdrm/gpu/softgpu"
)

// capability is the value of --sm: a compute capability times ten. The zero value is the default.
type capability int

// String is part of pflag.Value.
func (c *capability) String() string {
	n := cmp.Or(int(*c), softgpu.DefaultCapability)
	return fmt.Sprintf("%d.%d", n/10, n%10)
}

// Type is part of pflag.Value.
func (*capability) Type() string { return "N.N" }

// Set is part of pflag.Value. It takes 9.0 as well as nvcc's 90 and sm_90.
func (c *capability) Set(s string) error {
	n, err := strconv.Atoi(strings.Replace(strings.TrimPrefix(s, "sm_"), ".", "", 1))
	if err != nil || !slices.Contains(softgpu.Capabilities, n) {
		var known []string
		for _, n := range softgpu.Capabilities {
			known = append(known, fmt.Sprintf("%d.%d", n/10, n%10))
		}
		return fmt.Errorf("%q is the compute capability of no GPU (want one of %s)", s, strings.Join(known, ", "))
	}
	*c = capability(n)
	return nil
}

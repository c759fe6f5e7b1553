package tests

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gpu/softgpu"
)

// TestLongNames has a kernel and a variable whose names are as long as names may be: those of C++
// templates, such as CUTLASS's, have thousands of bytes. One more is refused.
func TestLongNames(t *testing.T) {
	h := startHost(t, softgpu.Config{SMs: 1})
	p := newProgram(t, h.open(t))
	kernel, variable := strings.Repeat("k", drm.MaxName), strings.Repeat("v", drm.MaxName)
	const form = ".version 7.0\n.target sm_70\n.address_size 64\n.global .u32 %s = 1;\n.visible .entry %s() { ret; }\n"
	m, err := p.ModuleLoad("names.ptx", []byte(fmt.Sprintf(form, variable, kernel)))
	require.NoError(t, err)
	_, _, err = p.ModuleFunction(m, kernel)
	require.NoError(t, err)
	_, size, err := p.ModuleGlobal(m, variable)
	require.NoError(t, err)
	require.EqualValues(t, 4, size)
	_, _, err = p.ModuleFunction(m, kernel+"k")
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = p.ModuleLoad("names.ptx", []byte(fmt.Sprintf(form, variable, kernel+"k")))
	require.ErrorContains(t, err, "name longer than")
}

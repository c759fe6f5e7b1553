package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// printing is what nvcc makes of
//
//	__global__ void say(int n) { printf("thread %d of %d: %.2f %s\n", threadIdx.x, n, threadIdx.x * 0.5, "ok"); }
const printing = `
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf(.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);
.global .align 1 .b8 $str[26] = {116, 104, 114, 101, 97, 100, 32, 37, 100, 32, 111, 102, 32, 37, 100, 58, 32, 37, 46, 50, 102, 32, 37, 115, 10, 0};
.global .align 1 .b8 $ok[3] = {111, 107, 0};
.visible .entry say(.param .u32 say_param_0)
{
	.local .align 8 .b8 __local_depot0[24];
	.reg .b64 %SP, %SPL, %rd<6>;
	.reg .b32 %r<5>;
	.reg .f64 %fd<3>;
	mov.u64 %SPL, __local_depot0;
	cvta.local.u64 %SP, %SPL;
	ld.param.u32 %r1, [say_param_0];
	add.u64 %rd1, %SP, 0;
	add.u64 %rd2, %SPL, 0;
	mov.u32 %r2, %tid.x;
	cvt.rn.f64.u32 %fd1, %r2;
	mul.f64 %fd2, %fd1, 0d3FE0000000000000;
	st.local.v2.u32 [%rd2], {%r2, %r1};
	st.local.f64 [%rd2+8], %fd2;
	mov.u64 %rd5, $ok;
	cvta.global.u64 %rd5, %rd5;
	st.local.u64 [%rd2+16], %rd5;
	mov.u64 %rd3, $str;
	cvta.global.u64 %rd4, %rd3;
	{
	.param .b64 param0;
	st.param.b64 [param0+0], %rd4;
	.param .b64 param1;
	st.param.b64 [param1+0], %rd1;
	.param .b32 retval0;
	call.uni (retval0), vprintf, (param0, param1);
	ld.param.b32 %r3, [retval0+0];
	}
	setp.ne.s32 %p1, %r3, 4;
	@%p1 trap;
	ret;
}
.visible .entry wild(.param .u64 where)
{
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [where];
	{
	.param .b64 param0;
	st.param.b64 [param0+0], %rd1;
	.param .b64 param1;
	st.param.b64 [param1+0], %rd1;
	.param .b32 retval0;
	call.uni (retval0), vprintf, (param0, param1);
	}
	ret;
}
`

func TestMarksAreTheSame(t *testing.T) {
	require.Equal(t, gpu.StderrMark, drm.StderrMark)
}

func TestPrintfOfKernels(t *testing.T) {
	h := startHost(t, softgpu.Config{SMs: 1})
	p := newProgram(t, h.open(t))
	m, err := p.ModuleLoad("printing.ptx", []byte(strings.Replace(printing, ".reg .f64 %fd<3>;", ".reg .f64 %fd<3>; .reg .pred %p<2>;", 1)))
	require.NoError(t, err)
	say, _, err := p.ModuleFunction(m, "say")
	require.NoError(t, err)
	require.NoError(t, p.run(drm.LaunchCmd{Function: say, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{3, 1, 1}, Params: []byte{3, 0, 0, 0}}.Append(nil)))
	text, err := p.ReadOutput()
	require.NoError(t, err)
	require.Equal(t, "thread 0 of 3: 0.00 ok\nthread 1 of 3: 0.50 ok\nthread 2 of 3: 1.00 ok\n", string(text))
	text, err = p.ReadOutput()
	require.NoError(t, err)
	require.Empty(t, text)

	// More than is kept loses the oldest.
	require.NoError(t, p.run(drm.LaunchCmd{Function: say, Grid: [3]uint32{50, 1, 1}, Block: [3]uint32{1000, 1, 1}, Params: []byte{3, 0, 0, 0}}.Append(nil)))
	all := 0
	last := ""
	for {
		text, err := p.ReadOutput()
		require.NoError(t, err)
		if len(text) == 0 {
			break
		}
		all += len(text)
		last = string(text)
	}
	require.Equal(t, 1<<20, all)
	require.True(t, strings.HasSuffix(last, "thread 999 of 3: 499.50 ok\n"))

	// A format that is nowhere is a fault of the kernel.
	wild, _, err := p.ModuleFunction(m, "wild")
	require.NoError(t, err)
	require.Error(t, p.run(drm.LaunchCmd{Function: wild, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: make([]byte, 8)}.Append(nil)))
	_, why, err := p.LostStatus()
	require.NoError(t, err)
	require.Contains(t, why, "illegal address")
}

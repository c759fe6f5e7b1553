package hostile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"pvdrm/drm"
	"pvdrm/frontend"
)

// hogs are kernels that take much memory of a backend and keep it until a word of the guest's
// page, p, is not 0.
const hogs = ptxHead + `
.extern .func (.param .b32 r) __pvdrm_launch(.param .b64 header, .param .b64 stream);
.extern .func (.param .b32 r) __pvdrm_synchronize(.param .b32 depth);
.visible .entry large(.param .u64 p)
{
	.local .align 8 .b8 all[32000]; .reg .b64 %d<3>; .reg .b32 %r; .reg .pred %p;
	ld.param.u64 %d1, [p]; mov.u64 %d2, all;
L:	st.local.u64 [%d2], %d1; ld.volatile.global.u32 %r, [%d1]; setp.eq.u32 %p, %r, 0; @%p bra L;
	ret;
}
.visible .entry nothing(.param .u64 p) { ret; }
.visible .entry flood(.param .u64 p)
{
	.reg .b64 %d<3>; .reg .b32 %r; .reg .pred %p; .param .b64 h; .param .b64 s; .param .b32 e;
	ld.param.u64 %d1, [p]; add.u64 %d1, %d1, 64; mov.u64 %d2, nothing; st.global.u64 [%d1], %d2;
	mov.u64 %d2, 0; st.param.b64 [h], %d1; st.param.b64 [s], %d2;
L:	call (e), __pvdrm_launch, (h, s); ld.param.b32 %r, [e]; setp.eq.u32 %p, %r, 0; @%p bra L;
M:	ld.volatile.global.u32 %r, [%d1+-64]; setp.eq.u32 %p, %r, 0; @%p bra M;
	trap;
}
.visible .entry stop(.param .u64 p)
{
	.local .align 8 .b8 all[16000]; .reg .b64 %d<4>; .reg .b32 %r<3>; .reg .pred %p; .param .b64 h; .param .b64 s; .param .b32 e;
	ld.param.u64 %d1, [p]; add.u64 %d1, %d1, 64; mov.u64 %d2, stop; mov.u64 %d3, all;
	st.global.u64 [%d1], %d2; sub.u64 %d2, %d1, 64; st.global.u64 [%d1+64], %d2;
	mov.u64 %d2, 0; st.param.b64 [h], %d1; st.param.b64 [s], %d2; mov.u32 %r2, 24;
L:	ld.volatile.global.u32 %r0, [%d1+-64]; setp.ne.u32 %p, %r0, 0; @%p ret;
	call (e), __pvdrm_launch, (h, s); ld.param.b32 %r1, [e]; st.local.u64 [%d3], %d1;
	st.param.b32 [e], %r2; call (e), __pvdrm_synchronize, (e);
	bra L;
}
`

// preemptedLaunches has many files run kernels that take as much memory as one may, and wait for
// each other.
func preemptedLaunches(open Opener, a Allowance) error {
	return hog(open, a, "large", [3]uint32{1024, 1, 1}, func(err error) error { return err })
}

// stoppedLaunches has kernels of several files launch themselves and wait for that, 24 deep and again and again, with
// as much memory as they may.
func stoppedLaunches(open Opener, a Allowance) error {
	return hog(open, a, "stop", [3]uint32{1024, 1, 1}, func(err error) error { return err })
}

// waitingLaunches has kernels of several files launch others without end.
func waitingLaunches(open Opener, a Allowance) error {
	return hog(open, a, "flood", [3]uint32{1, 1, 1}, func(err error) error { return mustFault(err, "a trap") })
}

// hog runs a kernel in many files, all at once, and looks at how each of them ends.
func hog(open Opener, a Allowance, kernel string, block [3]uint32, want func(error) error) error {
	const files = 24
	var all []*session
	var errs []error
	for range files {
		c, err := open()
		if err != nil {
			return err
		}
		f, err := frontend.New(c)
		if err != nil {
			return errors.Join(err, c.Close())
		}
		s, err := prepare(f)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		all = append(all, s)
	}
	ends := make([]uint64, files)
	for i, s := range all {
		m, err := s.ModuleLoad("hogs.ptx", []byte(hogs))
		if err != nil {
			return err
		}
		id, _, err := s.ModuleFunction(m, kernel)
		if err != nil {
			return err
		}
		for n := 64 + 8; n < 64+32; n += 4 { // grid and block of the launches of flood and stop
			binary.LittleEndian.PutUint32(s.mem[n:], 1)
		}
		launch := drm.LaunchCmd{Function: id, Grid: [3]uint32{4, 1, 1}, Block: block, Params: binary.LittleEndian.AppendUint64(nil, s.base)}
		if ends[i], err = s.Exec(s.channel, launch.Append(nil), nil); err != nil {
			return err
		}
	}
	time.Sleep(a.Burst)
	for _, s := range all {
		s.mem[0] = 1
	}
	for i, s := range all {
		err := want(s.Wait(drm.Point{Channel: s.channel, Seqno: ends[i]}, patience))
		if err != nil {
			err = fmt.Errorf("file %d of %d: %w", i, files, err)
		}
		errs = append(errs, err, s.Close())
	}
	return errors.Join(errs...)
}

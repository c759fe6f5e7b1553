package main

import "fmt"

// asyncSpecs are copies to shared memory, and hints that change no result.
func asyncSpecs() (list []spec) {
	const tile = ".shared .align 16 .b8 tile[2048];"
	at := []string{"mov.u32 %t0, %tid.x", "shl.b32 %t0, %t0, 4", "mov.u32 %t1, tile", "add.u32 %t1, %t1, %t0", "st.shared.v4.b32 [%t1], {%t0, %t0, %t0, %t0}"}
	add := func(name string, columns int, instrs ...string) {
		body := append(append([]string{}, at...), instrs...)
		body = append(body, "cp.async.commit_group", "cp.async.wait_group 0", "ld.shared.v4.b32 {%x, %y, %z, %w}, [%t1]")
		in := []string{"u32:rand", "u32:rand", "u32:rand", "u32:rand"}[:columns]
		list = append(list, spec{name: name, in: in, out: []string{"u32", "u32", "u32", "u32"}, rows: 128, top: []string{tile}, body: body})
	}
	for _, size := range []int{4, 8, 16} {
		add(fmt.Sprintf("cp.async.ca.%d", size), size/4, fmt.Sprintf("cp.async.ca.shared.global [%%t1], [%%from], %d", size))
		add(fmt.Sprintf("cp.async.ca.%d.part", size), size/4, fmt.Sprintf("rem.u32 %%t2, %%row, %d", size+1),
			fmt.Sprintf("cp.async.ca.shared::cta.global.L2::128B [%%t1], [%%from], %d, %%t2", size), "cp.async.wait_all")
	}
	add("cp.async.cg.hint", 4, "createpolicy.fractional.L2::evict_first.b64 %l0, 0f3F800000", "cp.async.cg.shared.global.L2::cache_hint [%t1], [%from], 16, %l0")
	list = append(list, spec{name: "griddepcontrol", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64,
		body: []string{"griddepcontrol.launch_dependents", "griddepcontrol.wait", "ld.global.u32 %x, [%from]"}})
	list = append(list, spec{name: "createpolicy.fractional", in: []string{"f32:range=0.0625,1"}, out: []string{"u64", "u64", "u64"}, rows: 32, body: []string{
		"createpolicy.fractional.L2::evict_normal.b64 %x", "createpolicy.fractional.L2::evict_first.b64 %y, 1.0", "createpolicy.fractional.L2::evict_last.b64 %z, 0f3F800000"}})
	return append(list, mbarrierSpecs()...)
}

// mbarrierSpecs hand numbers from warp to warp, phase after phase.
func mbarrierSpecs() (list []spec) {
	const bar = ".shared .align 8 .b64 bar;"
	start := []string{"mov.u32 %t0, %tid.x", "shl.b32 %t1, %t0, 2", "mov.u32 %t2, tile", "add.u32 %t1, %t1, %t2", "xor.b32 %t2, %t0, 32", "shl.b32 %t2, %t2, 2",
		"mov.u32 %t3, tile", "add.u32 %t2, %t2, %t3", "mov.u32 %x, %a", "mov.u32 %t5, 0", "mov.u32 %y, 0", "setp.eq.u32 %p, %t0, 0"}
	loop := func(name, init string, arrive []string, wait string) {
		body := append(append([]string{}, start...), "@%p mbarrier.init.shared.b64 [bar], "+init, "bar.sync 0", "again:", "st.shared.u32 [%t1], %x")
		body = append(body, arrive...)
		body = append(body, "wait:", wait, "@!%q bra wait", "ld.shared.u32 %t4, [%t2]", "mad.lo.u32 %x, %x, 5, %t4", "bar.sync 0",
			"add.u32 %t5, %t5, 1", "setp.lt.u32 %r, %t5, 5", "@%r bra again", "@%p mbarrier.inval.shared.b64 [bar]")
		list = append(list, spec{name: name, in: []string{"u32:rand"}, out: []string{"u32", "u32"}, rows: 128, block: 64, body: body,
			top: []string{bar, ".shared .align 16 .b8 tile[256];"}})
	}
	loop("mbarrier.state", "64", []string{"mbarrier.arrive.shared.b64 %l0, [bar]"}, "mbarrier.test_wait.shared.b64 %q, [bar], %l0")
	loop("mbarrier.parity", "128", []string{"mbarrier.arrive.release.cta.shared::cta.b64 _, [bar], 2", "and.b32 %t6, %t5, 1"},
		"mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %q, [bar], %t6, 1000")
	loop("mbarrier.bytes", "64", []string{"mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 0", "mbarrier.arrive.expect_tx.shared.b64 %l0, [bar], 0"},
		"mbarrier.try_wait.shared.b64 %q, [bar], %l0")
	loop("mbarrier.cp.async", "128", []string{"cp.async.mbarrier.arrive.shared.b64 [bar]", "cp.async.mbarrier.arrive.noinc.shared.b64 [bar]",
		"mov.u64 %l1, bar", "cvta.shared.u64 %l1, %l1", "mbarrier.arrive.b64 %l0, [%l1]"}, "mbarrier.test_wait.shared.b64 %q, [bar], %l0")
	loop("mbarrier.drop", "96", []string{"setp.lt.u32 %s, %t0, 32", "setp.eq.and.u32 %s, %t5, 0, %s", "@%s mbarrier.arrive_drop.shared.b64 %l1, [bar]",
		"mbarrier.arrive.shared.b64 %l0, [bar]", "bar.sync 1", "and.b32 %t6, %t5, 1"}, "mbarrier.test_wait.parity.shared.b64 %q, [bar], %t6")
	list = append(list, spec{name: "mbarrier.pending", in: []string{"u32:rand"}, out: []string{"u32", "u32"}, rows: 1, block: 1, top: []string{bar}, body: []string{
		"mbarrier.init.shared.b64 [bar], 5", "mbarrier.arrive.shared.b64 %l0, [bar], 3", "mbarrier.arrive.shared.b64 %l1, [bar]",
		"mbarrier.pending_count.b64 %x, %l0", "mbarrier.pending_count.b64 %y, %l1"}})
	return list
}

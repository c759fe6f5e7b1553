package main

import "strings"

// quadRegisters are the registers of 128 bits that the bodies use.
const quadRegisters = ".reg .b128 %q0, %q1, %q2;"

// quadSpecs are instructions on values of 128 bits.
func quadSpecs() (list []spec) {
	add := func(name string, s spec) {
		s.name, s.rows, s.locals = name, 64, append(s.locals, quadRegisters)
		if s.in == nil {
			s.in = []string{"u64:rand", "u64:rand"}
		}
		if s.out == nil {
			s.out = []string{"u64", "u64"}
		}
		list = append(list, s)
	}
	for _, q := range []string{".global", "", ".weak.global", ".global.cg", ".global.nc", ".global.L1::evict_last", ".global.nc.L1::no_allocate.L2::128B", ".volatile.global",
		".relaxed.gpu.global", ".acquire.sys.global", ".relaxed.cta"} {
		add("ld"+q+".b128", spec{body: []string{"ld" + q + ".b128 %q0, [%from]", "mov.b128 {%x, %y}, %q0"}})
	}
	add("ldu.global.b128", spec{body: []string{"ldu.global.b128 %q0, [%from]", "mov.b128 {%x, %y}, %q0"}})
	for _, q := range []string{".global", "", ".weak.global", ".global.wt", ".global.L1::no_allocate", ".volatile.global", ".relaxed.gpu.global", ".release.sys", ".relaxed.cta.global"} {
		add("st"+q+".b128", spec{stores: true, body: []string{"mov.b128 %q0, {%a, %b}", "st" + q + ".b128 [%to], %q0"}})
	}
	for _, space := range []string{".shared", ".local"} {
		body := []string{"mov.u64 %l0, buf", "mov.u32 %t0, %tid.x", "mad.wide.u32 %l0, %t0, 16, %l0", "mov.b128 %q0, {%a, %b}",
			"st" + space + ".b128 [%l0], %q0", "ld" + space + ".b128 %q1, [%l0]", "mov.b128 {%x, %y}, %q1"}
		add("ld"+space+".b128", spec{block: 32, body: body, locals: []string{space + " .align 16 .b8 buf[512];"}})
	}
	add("ld.const.b128", spec{top: []string{".const .align 16 .u64 pairs[8] = {1, 0x123456789abcdef0, 3, -4, 5, 6, 0xffffffffffffffff, 8};"},
		body: []string{"and.b32 %t0, %row, 3", "mov.u64 %l0, pairs", "mad.wide.u32 %l0, %t0, 16, %l0", "ld.const.b128 %q0, [%l0]", "mov.b128 {%x, %y}, %q0"}})
	list = append(list, quadMoves()...)
	list = append(list, quadHints()...)
	for _, q := range []string{"atom.global", "atom.shared", "atom", "atom.relaxed.gpu", "atom.acquire.cta.global", "atom.release.sys.global", "atom.acq_rel.gpu.global",
		"atom.relaxed.cta.shared", "atom.relaxed.cluster.shared::cluster"} {
		list = append(list, quadAtomic(q+".exch.b128"), quadAtomic(q+".cas.b128"))
	}
	return list
}

// quadHints are accesses with a policy or to memory of devices.
func quadHints() (list []spec) {
	policy := "createpolicy.fractional.L2::evict_last.b64 %l3, 1.0"
	for _, q := range []string{"ld.global.L2::cache_hint", "ld.relaxed.gpu.global.L2::cache_hint", "ld.global.nc.L2::cache_hint", "ld.mmio.relaxed.sys.global"} {
		hint := ""
		if strings.HasSuffix(q, "hint") {
			hint = ", %l3"
		}
		list = append(list, spec{name: q + ".b128", body: []string{policy, q + ".b128 %q0, [%from]" + hint, "mov.b128 {%x, %y}, %q0"}})
	}
	for _, q := range []string{"st.global.L2::cache_hint", "st.relaxed.gpu.global.L2::cache_hint", "st.mmio.relaxed.sys.global"} {
		hint := ""
		if strings.HasSuffix(q, "hint") {
			hint = ", %l3"
		}
		list = append(list, spec{name: q + ".b128", stores: true, body: []string{policy, "mov.b128 %q0, {%a, %b}", q + ".b128 [%to], %q0" + hint}})
	}
	list = append(list, spec{name: "atom.global.exch.L2::cache_hint.b128", body: []string{policy, "mov.b128 %q0, {%a, %b}", "st.global.b128 [%to], %q0", "mov.b128 %q1, {%b, %a}",
		"atom.global.exch.L2::cache_hint.b128 %q2, [%to], %q1, %l3", "mov.b128 {%x, %y}, %q2"}})
	for n := range list {
		list[n].in, list[n].out, list[n].rows, list[n].locals = []string{"u64:rand", "u64:rand"}, []string{"u64", "u64"}, 64, []string{quadRegisters}
	}
	return list
}

// quadMoves pack and unpack.
func quadMoves() (list []spec) {
	for name, body := range map[string][]string{
		"mov.b128":           {"mov.b128 %q0, {%a, %b}", "mov.b128 %q1, %q0", "mov.b128 {%x, %y}, %q1"},
		"mov.b128.pack.v4":   {"cvt.u32.u64 %t0, %a", "cvt.u32.u64 %t1, %b", "shr.u64 %l0, %a, 32", "cvt.u32.u64 %t2, %l0", "mov.b128 %q0, {%t0, %t1, %t2, 7}", "mov.b128 {%x, %y}, %q0"},
		"mov.b128.unpack.v4": {"mov.b128 %q0, {%a, %b}", "mov.b128 {%t0, %t1, %t2, %t3}, %q0", "mov.b64 %x, {%t3, %t2}", "mov.b64 %y, {%t1, %t0}"},
		"mov.b128.sink":      {"mov.b128 %q0, {%a, %b}", "mov.b128 {_, %x}, %q0", "mov.b128 {%y, _}, %q0"},
		"mov.b128.imm":       {"mov.b128 %q0, 77", "mov.b128 {%x, %y}, %q0"},
		"mov.b128.pred":      {"and.b64 %l0, %a, 1", "setp.eq.u64 %p, %l0, 0", "mov.b128 %q0, {%a, %b}", "@%p mov.b128 %q0, {%b, %a}", "mov.b128 {%x, %y}, %q0"},
	} {
		list = append(list, spec{name: name, in: []string{"u64:rand", "u64:rand"}, out: []string{"u64", "u64"}, rows: 64, locals: []string{quadRegisters}, body: body})
	}
	return list
}

// quadAtomic is an exchange, or a comparison whose operands are equal, or differ in one half, or in both.
func quadAtomic(instr string) spec {
	s := spec{name: instr, in: []string{"u64:rand", "u64:rand"}, out: []string{"u64", "u64", "u64", "u64"}, rows: 64, block: 32, locals: []string{quadRegisters}}
	address, space := "%l0", ".global"
	s.body = []string{"mov.u64 %l0, cells", "mad.wide.u32 %l0, %row, 16, %l0"}
	s.top = []string{".global .align 16 .b8 cells[1024];"}
	if strings.Contains(instr, "shared") {
		address, space = "%t1", ".shared"
		s.top = []string{".shared .align 16 .b8 cells[512];"}
		s.body = []string{"mov.u32 %t0, %tid.x", "mov.u32 %t1, cells", "mad.lo.u32 %t1, %t0, 16, %t1"}
	}
	s.body = append(s.body, "mov.b128 %q0, {%a, %b}", "st"+space+".b128 ["+address+"], %q0", "mov.b128 %q2, {%b, %a}")
	if strings.Contains(instr, "cas") {
		s.body = append(s.body, "mov.b64 %l2, %a", "mov.b64 %l3, %b", "and.b32 %t2, %row, 1", "setp.ne.u32 %p, %t2, 0", "@%p xor.b64 %l2, %l2, 4096",
			"and.b32 %t2, %row, 2", "setp.ne.u32 %p, %t2, 0", "@%p xor.b64 %l3, %l3, 1", "mov.b128 %q1, {%l2, %l3}", instr+" %q0, ["+address+"], %q1, %q2")
	} else {
		s.body = append(s.body, instr+" %q0, ["+address+"], %q2")
	}
	s.body = append(s.body, "mov.b128 {%x, %y}, %q0", "ld"+space+".b128 %q0, ["+address+"]", "mov.b128 {%z, %w}, %q0")
	return s
}

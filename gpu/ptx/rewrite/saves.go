package rewrite

import (
	"strconv"

	"pvdrm/gpu/ptx"
)

// leave has a thread that stops save the registers of its point. Where they go is found once for all points: compilers
// take time for cold code as for other, and the software GPU's compiles what a kernel has.
func (p *pauser) leave(t *text) {
	if len(p.saves) == 0 {
		return
	}
	t.label("leave")
	p.place(t)
	for n := 1; n < len(p.saves); n++ {
		t.line("setp.eq.u32 %%:p, %%:point, %d", pointFirst+n)
		t.line("@%%:p bra :save%d", n)
	}
	for n := range p.saves {
		t.label("save" + strconv.Itoa(n))
		p.registers(t, n, true)
		if p.mode == blocks && !p.isBarrier(n) {
			t.line("st.volatile.shared.u32 [%swish], %%:phase", t.prefix)
			t.line("barrier.sync 0")
		}
		t.line("bra :stop")
	}
}

// registers saves the registers of a point, or restores them. They fill words of the thread one after the other.
func (p *pauser) registers(t *text, n int, save bool) {
	at := p.registersAt()
	word := -1
	for size := 8; size > 0; size /= 2 {
		for _, r := range p.saves[n] {
			reg := &p.f.Regs[r]
			if reg.Type.Size() != size {
				continue
			}
			switch {
			case word < 0:
				p.field(t, "%:a", at)
				t.line("shl.b64 %%:w, %%:threads, 3")
			case at/8 != word:
				t.line("add.u64 %%:a, %%:a, %%:w")
			}
			word = at / 8
			place := at % 8
			at += size
			switch pred := reg.Type == ptx.Pred; {
			case pred && save:
				t.line("selp.u32 %%:t, 1, 0, %s", reg.Name)
				t.line("st.global.b8 [%%:a+%d], %%:t", place)
			case pred:
				t.line("ld.global.u8 %%:t, [%%:a+%d]", place)
				t.line("setp.ne.u32 %s, %%:t, 0", reg.Name)
			case save:
				t.line("st.global.b%d [%%:a+%d], %s", 8*size, place, reg.Name)
			default:
				t.line("ld.global.b%d %s, [%%:a+%d]", 8*size, reg.Name, place)
			}
		}
	}
}

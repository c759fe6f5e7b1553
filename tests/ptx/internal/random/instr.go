package random

import (
	"fmt"
	"strings"
)

// Instructions by the letter of their result. A small letter in the operands
// is a register of that kind; F, D and s are ones of f, d and h whose bits count, n is
// an integer, m a shift amount, p a predicate.
// Words in parentheses are alternatives.
var instructions = map[string][]string{
	"r": {
		"(add|sub|mul.lo|mul.hi|div|rem|min|max).(u32|s32) r r", "(add|sub).sat.s32 r r", "(xor|or|and).b32 r n", "(add|mul.lo).s32 r n", "(and|or|xor).b32 r r",
		"mad.(lo|hi).(u32|s32) r r r", "mul24.(lo|hi).(u32|s32) r r", "sad.(u32|s32) r r r", "(shl.b32|shr.u32|shr.s32) r m", "not.b32 r",
		"shf.(l|r).(clamp|wrap).b32 r r r", "bfe.(u32|s32) r m m", "bfi.b32 r r m m", "prmt.b32 r r r", "(popc|clz|brev).b32 r", "(popc|clz).b64 l",
		"bfind.(u32|s32) r", "dp4a.(u32|s32).(u32|s32) r r r", "lop3.b32 r r r 0x96", "lop3.b32 r r r 0xe8", "selp.b32 r r p", "slct.b32.s32 r r r",
		"cvt.u32.u64 l", "cvt.(rni|rzi|rmi|rpi).(u32|s32).f32 f", "cvt.rzi.(u32|s32).f64 d", "cvt.rni.s32.f16 h", "set.(lt|neu|ge).u32.f32 f f",
		"set.(lt|ne|ge).u32.s32 r r", "mov.b32 F", "cvt.(s8|u8|s16|u16).u32 r", "abs.s32 r", "neg.s32 r", "cnot.b32 r", "mov.b32 r",
		"prmt.b32.(f4e|b4e|rc8|ecl|ecr|rc16) r r r", "szext.(clamp|wrap).(u32|s32) r m", "bmsk.(clamp|wrap).b32 m m", "fns.b32 r m n",
		"(min|max).relu.s32 r r", "(add|min|max).(u16x2|s16x2) r r", "(min|max).relu.s16x2 r r", "dp2a.(lo|hi).(u32|s32).(u32|s32) r r r",
		"mad24.(lo|hi).(u32|s32) r r r", "mad24.hi.sat.s32 r r r", "mad.hi.sat.s32 r r r", "bfind.shiftamt.(u32|s32) r", "mul.wide.(u16|s16) s s",
		"(add|sub|mul).rn.f16x2 r r", "fma.rn.(f16x2|bf16x2) r r r", "fma.rn.relu.(f16x2|bf16x2) r r r", "(add|mul).rn.(ftz|sat|ftz.sat).f16x2 r r",
		"(min|max).(f16x2|bf16x2|NaN.f16x2|NaN.bf16x2|xorsign.abs.f16x2|NaN.xorsign.abs.bf16x2) r r", "(abs|neg).(f16x2|bf16x2) r",
		"cvt.(rn|rz|rn.relu|rz.relu).(f16x2|bf16x2).f32 f f", "cvt.sat.(s8|u8|s16|u16).(s32|u32) r", "cvt.sat.(s32.u32|u32.s32) r", "cvt.sat.(u32|s32).(u64|s64) l",
		"cvt.(rn|rz|rna|rn.relu|rna.satfinite).tf32.f32 f", "cvt.(rn|rz).(satfinite|relu.satfinite).(f16x2|bf16x2).f32 f f",
		"(vadd|vsub|vabsdiff|vmin|vmax).(u32|s32).(u32|s32).(u32|s32) r r", "(vadd|vsub|vabsdiff).(u32|s32).(u32|s32).(u32|s32).(sat|add|min|sat.max) r r r",
		"(vshl|vshr).(u32|s32).(u32|s32).u32.(clamp|wrap|sat.clamp|sat.wrap) r m", "vmad.(u32|s32).(u32|s32).(u32|s32).(shr7|sat|sat.shr15|po) r r r",
		"vset.(u32|s32).(u32|s32).(lt|ge|ne.add|eq.max) r r r", "(vadd|vsub|vavrg|vabsdiff|vmin|vmax)(2|4).(u32|s32).(u32|s32).(u32|s32).(sat|add) r r r",
		"(vset2|vset4).(u32|s32).(u32|s32).(lt|ge.add) r r r", "cvt.pack.sat.(u16|s16).s32 r r", "cvt.pack.sat.(u8|s8|u4|s2).s32.b32 r r r",
		"cvt.(rn|rn.relu).f16x2.(e4m3x2|e5m2x2) s", "fma.rn.(oob|oob.relu).(f16x2|bf16x2) r r r", "set.(lt|neu).u32.f16x2 r r",
		"set.(eq|gtu).f16x2.f16x2 r r", "set.(lt|num).(and|or|xor).u32.f32 f f p", "cvt.(rni|rpi).u32.bf16 h",
	},
	"l": {
		"(add|sub|mul.lo|mul.hi|min|max).(u64|s64) l l", "(and|or|xor).b64 l l", "(shl.b64|shr.u64|shr.s64) l m", "mad.lo.(u64|s64) l l l",
		"mul.wide.(u32|s32) r r", "mad.wide.(u32|s32) r r l", "(div|rem).(u64|s64) l l", "brev.b64 l", "not.b64 l", "selp.b64 l l p",
		"cvt.(u64.u32|s64.s32) r", "cvt.(rni|rzi).(u64|s64).f32 f", "cvt.rzi.s64.f64 d", "mov.b64 {r,r}", "mov.b64 l",
		"bfe.(u64|s64) l m m", "bfi.b64 l l m m", "mad.hi.(u64|s64) l l l", "sad.(u64|s64) l l l", "cnot.b64 l", "(abs|neg).s64 l", "slct.b64.s32 l l r",
		"slct.b64.f32 l l f", "cvt.sat.u64.s32 r", "cvt.(rmi|rpi).(u64|s64).f64 d", "cvt.rni.(s64|u64).f16 h",
	},
	"f": {
		"(add|sub|mul).(rn|rz|rm|rp).f32 f f", "(add|mul).rn.(ftz|sat|ftz.sat).f32 f f", "fma.(rn|rz|rm|rp).f32 f f f", "fma.rn.ftz.f32 f f f",
		"div.rn.f32 f f", "(sqrt|rcp).rn.f32 f", "(min|max).f32 f f", "(min|max).NaN.f32 f f", "(abs|neg).f32 f", "copysign.f32 f F", "selp.f32 f f p",
		"cvt.(rn|rz|rm|rp).f32.(u32|s32) r", "cvt.(rn|rz).f32.s64 l", "cvt.(rn|rz|rm|rp).f32.f64 d", "cvt.f32.f16 h", "mov.b32 r",
		"cvt.(rni|rzi|rmi|rpi).f32.f32 f", "(add|sub|mul).(rz|rm|rp).(ftz|sat|ftz.sat).f32 f f", "fma.(rz|rm|rp).(ftz|sat|ftz.sat).f32 f f f",
		"div.(rn|rz|rm|rp|rn.ftz|rm.ftz).f32 f f", "(sqrt|rcp).(rz|rm|rp|rn.ftz|rp.ftz).f32 f", "(min|max).(ftz|ftz.NaN|xorsign.abs|NaN.xorsign.abs).f32 f f",
		"(abs|neg).ftz.f32 f", "cvt.(rn|rz|rm|rp).(ftz|sat|ftz.sat).f32.f64 d", "cvt.(ftz|sat|ftz.sat).f32.f32 f", "cvt.f32.bf16 h", "slct.f32.f32 f f F",
		"set.(lt|geu).f32.f32 f f",
	},
	"d": {
		"(add|sub|mul).(rn|rz|rm|rp).f64 d d", "fma.(rn|rz|rm|rp).f64 d d d", "div.rn.f64 d d", "sqrt.rn.f64 d", "(min|max).f64 d d", "(abs|neg).f64 d",
		"cvt.f64.f32 f", "cvt.rn.f64.(u32|s32) r", "cvt.(rn|rz|rm|rp).f64.(s64|u64) l", "selp.f64 d d p", "mov.b64 l",
		"div.(rz|rm|rp).f64 d d", "(sqrt|rcp).(rn|rz|rm|rp).f64 d", "cvt.(rni|rzi|rmi|rpi).f64.f64 d", "cvt.f64.(f16|bf16) h", "cvt.sat.f64.f64 d",
		"copysign.f64 d D", "cvt.(ftz|sat).f64.f32 f",
	},
	"h": {
		"(add|sub|mul).rn.f16 h h", "fma.rn.f16 h h h", "fma.rn.relu.f16 h h h", "(min|max).f16 h h", "(abs|neg).f16 h", "cvt.(rn|rz|rm|rp).f16.f32 f",
		"cvt.rn.f16.s32 r", "(add|mul).rn.(ftz|sat|ftz.sat).f16 h h", "fma.rn.(ftz|sat|ftz.sat|ftz.relu).f16 h h h", "(add|sub|mul).rn.bf16 h h",
		"fma.rn.bf16 h h h", "(min|max).(bf16|NaN.bf16|NaN.f16|ftz.f16|xorsign.abs.f16) h h", "(abs|neg).(bf16|ftz.f16) h", "cvt.(rn|rz).bf16.f32 f",
		"cvt.(rn|rz|rn.relu).f16.f32 f", "cvt.(rn|rz|rm|rp).(f16|bf16).f64 d", "cvt.(rn|rp).(f16|bf16).(u32|s32) r", "cvt.(rni|rzi|rmi|rpi).f16.f16 h",
		"cvt.rn.(bf16.f16|f16.bf16) h", "cvt.(rn|rz).(satfinite|relu.satfinite).(f16|bf16).f32 f", "fma.rn.(oob|oob.relu).(f16|bf16) h h h",
		"cvt.rn.(satfinite|satfinite.relu).(e4m3x2|e5m2x2).f32 f f", "cvt.rn.(satfinite|satfinite.relu).(e4m3x2|e5m2x2).f16x2 r",
		"set.(lt|equ).f16.f16 h h", "(add|sub|mul.lo|mul.hi|min|max|div|rem).(u16|s16) s s", "(and|or|xor).b16 s s",
		"(shl.b16|shr.u16|shr.s16) s m", "mad.(lo|hi).(u16|s16) s s s", "sad.(u16|s16) s s s", "(not|cnot).b16 s", "selp.b16 h h p",
	},
}

// comparisons set a predicate.
var comparisons = []string{
	"setp.(eq|ne|lt|le|gt|ge).(s32|u32) r r", "setp.(lt|ge).s32 r n", "setp.(lt|ne|hs).u64 l l", "setp.(lt|le|equ|neu|ltu|num|nan).f32 f f",
	"setp.(gt|geu).f64 d d", "setp.(lt|neu).f16 h h", "setp.(lt|ne).(and|or|xor).s32 r r p", "testp.(finite|normal|number).f32 f",
	"testp.(infinite|notanumber|subnormal).f64 d", "setp.(lt|gtu|num).ftz.f32 f f", "setp.(eq|ne|lt|ge).(u16|s16) s s", "setp.(lt|equ|nan).bf16 h h",
	"setp.(gt|leu).ftz.f16 h h", "setp.(lo|ls|hi).u32 r r", "setp.(eq|ne).(and|or|xor).b64 l l p",
}

// unrounded are instructions of which a compiler may make one, so that only the
// engines agree on what they give.
var unrounded = map[string][]string{
	"f": {"mul.f32 f f", "add.f32 f f", "sub.f32 f f", "mul.ftz.f32 f f", "add.ftz.f32 f f", "sub.ftz.sat.f32 f f", "neg.f32 f", "add.sat.f32 f f"},
	"d": {"mul.f64 d d", "add.f64 d d", "sub.f64 d d", "neg.f64 d"},
	"h": {"mul.f16 h h", "add.f16 h h", "sub.f16 h h", "neg.f16 h", "mul.bf16 h h", "add.bf16 h h"},
	"r": {"mul.f16x2 r r", "add.f16x2 r r", "sub.f16x2 r r", "neg.f16x2 r"},
}

// instruction writes one whose result has the given letter; in a function
// without the others, only those of integers.
func (w *writer) instruction(letter string) {
	if w.rng.IntN(5) == 0 {
		w.compare()
	}
	patterns := instructions[letter]
	if w.engines && !w.integers && len(unrounded[letter]) > 0 && w.rng.IntN(4) == 0 {
		patterns = unrounded[letter]
	}
	name, operands := w.choose(patterns)
	guard := ""
	// The compiler of driver 580 loses the predicate of a set that gives 1.0.
	if w.rng.IntN(5) == 0 && (w.engines || !strings.HasPrefix(name, "set.")) {
		guard = fmt.Sprintf("@%s%s ", w.oneOf("", "!"), w.predicate())
	}
	w.line("%s%s %s%s;", guard, name, w.register(letter), operands)
}

// compare writes a comparison.
func (w *writer) compare() {
	name, operands := w.choose(comparisons)
	w.line("%s %s%s;", name, w.predicate(), operands)
}

// choose picks a pattern and fills it in. A function has integers only.
func (w *writer) choose(patterns []string) (name, operands string) {
	for {
		name, rest, _ := strings.Cut(patterns[w.rng.IntN(len(patterns))], " ")
		letters := strings.Fields(rest)
		if w.integers && (strings.Contains(name, ".f") || strings.ContainsAny(rest, "fFDdhs")) {
			continue
		}
		operands = ""
		for _, l := range letters {
			operands += ", " + w.operand(l)
		}
		return w.alternatives(name), operands
	}
}

// alternatives replaces each (a|b|…) by one of its words.
func (w *writer) alternatives(name string) string {
	for {
		before, rest, found := strings.Cut(name, "(")
		if !found {
			return name
		}
		choice, after, _ := strings.Cut(rest, ")")
		name = before + w.oneOf(strings.Split(choice, "|")...) + after
	}
}

func (w *writer) operand(letter string) string {
	switch letter {
	case "n":
		return fmt.Sprint(int32(w.rng.Uint32()) >> w.rng.IntN(32))
	case "m":
		if w.rng.IntN(2) == 0 {
			return fmt.Sprint(w.rng.IntN(70))
		}
		return w.register("r")
	case "p":
		return w.predicate()
	case "F", "D":
		return w.bits(strings.ToLower(letter))
	case "s": // the bits of a half as an integer
		return w.bits("h")
	case "{r,r}":
		return "{" + w.register("r") + ", " + w.register("r") + "}"
	}
	if letter[0] == '0' {
		return letter
	}
	return w.register(letter)
}

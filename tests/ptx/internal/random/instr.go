package random

import (
	"fmt"
	"strings"
)

// Instructions by the letter of their result. A small letter in the operands
// is a register of that kind, F one of f whose bits count, n an integer, m a
// shift amount, p a predicate.
// Words in parentheses are alternatives.
var instructions = map[string][]string{
	"r": {
		"(add|sub|mul.lo|mul.hi|div|rem|min|max).(u32|s32) r r", "(add|sub).sat.s32 r r", "(xor|or|and).b32 r n", "(add|mul.lo).s32 r n", "(and|or|xor).b32 r r",
		"mad.(lo|hi).(u32|s32) r r r", "mul24.(lo|hi).(u32|s32) r r", "sad.(u32|s32) r r r", "(shl.b32|shr.u32|shr.s32) r m", "not.b32 r",
		"shf.(l|r).(clamp|wrap).b32 r r r", "bfe.(u32|s32) r m m", "bfi.b32 r r m m", "prmt.b32 r r r", "(popc|clz|brev).b32 r", "(popc|clz).b64 l",
		"bfind.(u32|s32) r", "dp4a.(u32|s32).(u32|s32) r r r", "lop3.b32 r r r 0x96", "lop3.b32 r r r 0xe8", "selp.b32 r r p", "slct.b32.s32 r r r",
		"cvt.u32.u64 l", "cvt.(rni|rzi|rmi|rpi).(u32|s32).f32 f", "cvt.rzi.(u32|s32).f64 d", "cvt.rni.s32.f16 h", "set.(lt|neu|ge).u32.f32 f f",
		"set.(lt|ne|ge).u32.s32 r r", "mov.b32 F", "cvt.(s8|u8|s16|u16).u32 r", "abs.s32 r", "neg.s32 r", "cnot.b32 r", "mov.b32 r",
	},
	"l": {
		"(add|sub|mul.lo|mul.hi|min|max).(u64|s64) l l", "(and|or|xor).b64 l l", "(shl.b64|shr.u64|shr.s64) l m", "mad.lo.(u64|s64) l l l",
		"mul.wide.(u32|s32) r r", "mad.wide.(u32|s32) r r l", "(div|rem).(u64|s64) l l", "brev.b64 l", "not.b64 l", "selp.b64 l l p",
		"cvt.(u64.u32|s64.s32) r", "cvt.(rni|rzi).(u64|s64).f32 f", "cvt.rzi.s64.f64 d", "mov.b64 {r,r}", "mov.b64 l",
	},
	"f": {
		"(add|sub|mul).(rn|rz|rm|rp).f32 f f", "(add|mul).rn.(ftz|sat|ftz.sat).f32 f f", "fma.(rn|rz|rm|rp).f32 f f f", "fma.rn.ftz.f32 f f f",
		"div.rn.f32 f f", "(sqrt|rcp).rn.f32 f", "(min|max).f32 f f", "(min|max).NaN.f32 f f", "(abs|neg).f32 f", "copysign.f32 f F", "selp.f32 f f p",
		"cvt.(rn|rz|rm|rp).f32.(u32|s32) r", "cvt.(rn|rz).f32.s64 l", "cvt.(rn|rz|rm|rp).f32.f64 d", "cvt.f32.f16 h", "mov.b32 r",
		"cvt.(rni|rzi|rmi|rpi).f32.f32 f",
	},
	"d": {
		"(add|sub|mul).(rn|rz|rm|rp).f64 d d", "fma.(rn|rz|rm|rp).f64 d d d", "div.rn.f64 d d", "sqrt.rn.f64 d", "(min|max).f64 d d", "(abs|neg).f64 d",
		"cvt.f64.f32 f", "cvt.rn.f64.(u32|s32) r", "cvt.(rn|rz|rm|rp).f64.(s64|u64) l", "selp.f64 d d p", "mov.b64 l",
	},
	"h": {
		"(add|sub|mul).rn.f16 h h", "fma.rn.f16 h h h", "fma.rn.relu.f16 h h h", "(min|max).f16 h h", "(abs|neg).f16 h", "cvt.(rn|rz|rm|rp).f16.f32 f",
		"cvt.rn.f16.s32 r",
	},
}

// comparisons set a predicate.
var comparisons = []string{
	"setp.(eq|ne|lt|le|gt|ge).(s32|u32) r r", "setp.(lt|ge).s32 r n", "setp.(lt|ne|hs).u64 l l", "setp.(lt|le|equ|neu|ltu|num|nan).f32 f f",
	"setp.(gt|geu).f64 d d", "setp.(lt|neu).f16 h h", "setp.(lt|ne).(and|or|xor).s32 r r p", "testp.(finite|normal|number).f32 f",
}

// instruction writes one whose result has the given letter; in a function
// without the others, only those of integers.
func (w *writer) instruction(letter string) {
	if w.rng.IntN(5) == 0 {
		w.compare()
	}
	guard := ""
	if w.rng.IntN(5) == 0 {
		guard = fmt.Sprintf("@%s%s ", w.oneOf("", "!"), w.predicate())
	}
	name, operands := w.choose(instructions[letter])
	w.line("%s%s %s%s;", guard, name, w.register(letter), operands)
}

// compare writes a comparison.
func (w *writer) compare() {
	name, operands := w.choose(comparisons)
	w.line("%s %s%s;", name, w.predicate(), operands)
}

// choose picks a pattern and fills it in. A function has integers only.
func (w *writer) choose(patterns []string) (name, operands string) {
	integers := !strings.Contains(w.b.String(), ".entry")
	for {
		name, rest, _ := strings.Cut(patterns[w.rng.IntN(len(patterns))], " ")
		letters := strings.Fields(rest)
		if integers && (strings.Contains(name, ".f") || strings.ContainsAny(rest, "fFdh")) {
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
	case "F":
		return w.bits("f")
	case "{r,r}":
		return "{" + w.register("r") + ", " + w.register("r") + "}"
	}
	if letter[0] == '0' {
		return letter
	}
	return w.register(letter)
}

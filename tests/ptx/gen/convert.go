package main

import "strings"

var (
	smallInts = []string{"u8", "s8"}
	allInts   = append(smallInts, ints...)
	floats    = []string{"f16", "bf16", "f32", "f64"}
	toInteger = []string{".rni", ".rzi", ".rmi", ".rpi"}
)

// isFloat reports whether t is a floating point type.
func isFloat(t string) bool { return strings.Contains(t, "f") }

// wide is the column that shows all of the register that a conversion to t
// writes: small integers are extended.
func wide(t string) string {
	switch bitsOf(t) {
	case 8, 16:
		if !isFloat(t) {
			return "u32"
		}
	}
	return t
}

// convertSpecs are cvt: one fixture for each pair of types with all modifiers.
func convertSpecs() (list []spec) {
	all := append(append([]string(nil), allInts...), floats...)
	for _, d := range all {
		for _, a := range all {
			if d == "bf16" && bitsOf(a) == 8 || a == "bf16" && bitsOf(d) == 8 {
				continue // PTX has none
			}
			s := spec{name: "cvt." + d + "." + a, in: []string{a + ":cvt"}}
			for i, m := range conversions(d, a) {
				if a == "bf16" {
					s.out = append(s.out, d) // these do not extend
				} else {
					s.out = append(s.out, wide(d))
				}
				s.body = append(s.body, "cvt"+m+"."+d+"."+a+" %x"+string(rune('A'+i))+", %a")
			}
			for i := range s.body {
				s.body[i] = strings.Replace(s.body[i], "%x"+string(rune('A'+i)), s.outName(i), 1)
			}
			list = append(list, s)
		}
	}
	return append(list, narrowSpecs()...)
}

// narrowSpecs are the forms of cvt that have .relu or .satfinite, or make
// packed halves, tf32 or 8-bit floating point.
func narrowSpecs() (list []spec) {
	add := func(instr, out string, in ...string) { list = append(list, op(instr, out, in...)) }
	relus := maybe(".relu")
	for _, m := range []string{".rn", ".rz"} {
		for _, mods := range combine(relus, maybe(".satfinite")) {
			for _, h := range []string{"f16", "bf16"} {
				add("cvt"+m+mods+"."+h+"x2.f32", h+"x2", "f32:cvt", "f32:edge")
				if mods != "" {
					add("cvt"+m+mods+"."+h+".f32", h, "f32:cvt")
				}
			}
		}
		for _, relu := range relus {
			add("cvt"+m+relu+".tf32.f32", "u32", "f32:cvt")
		}
	}
	for _, relu := range relus {
		for _, t := range []string{"e4m3x2", "e5m2x2"} {
			add("cvt.rn.satfinite"+relu+"."+t+".f32", "u16", "f32:fp8", "f32:fp8")
			add("cvt.rn.satfinite"+relu+"."+t+".f16x2", "u16", "f16x2:fp8")
			// All bytes, in both places.
			list = append(list, spec{name: "cvt.rn" + relu + ".f16x2." + t, in: []string{"u16:iota"}, out: []string{"f16x2"}, rows: 256, body: []string{
				"mul.lo.u16 %h0, %a, 0x0101", "xor.b16 %h0, %h0, 0xff00", "cvt.rn" + relu + ".f16x2." + t + " %x, %h0"}})
		}
	}
	add("cvt.rna.tf32.f32", "u32", "f32:cvt")
	add("cvt.rna.satfinite.tf32.f32", "u32", "f32:cvt")
	return list
}

// conversions returns the modifiers that a pair of types has.
func conversions(d, a string) []string {
	sat := maybe(".sat")
	ftz := maybe()
	if d == "f32" && isFloat(a) || a == "f32" {
		ftz = maybe(".ftz")
	}
	switch {
	case !isFloat(d) && !isFloat(a):
		if holds(d, a) {
			return maybe()
		}
		return sat
	case !isFloat(d) && a == "bf16":
		return toInteger
	case !isFloat(d):
		return append(combine(toInteger, ftz), combine([]string{".rni"}, ftz, []string{".sat"})...)
	case !isFloat(a):
		if d == "bf16" {
			return roundings
		}
		return append(append([]string(nil), roundings...), ".rn.sat", ".rz.sat")
	case d == a:
		if d == "bf16" {
			return append([]string{""}, toInteger...)
		}
		return append(combine(sat, ftz), combine(toInteger, ftz)...)
	case d == "bf16":
		if a == "f32" {
			return []string{".rn", ".rz"}
		}
		return []string{".rn"}
	case a == "bf16":
		if d == "f16" {
			return []string{".rn", ".rz"}
		}
		return []string{""}
	case bitsOf(d) > bitsOf(a):
		return combine(ftz, sat)
	}
	return append(combine(roundings, ftz), combine([]string{".rn"}, ftz, []string{".sat"})...)
}

// holds reports whether integer type d has all values of a.
func holds(d, a string) bool {
	if d[0] == a[0] {
		return bitsOf(d) >= bitsOf(a)
	}
	return d[0] == 's' && bitsOf(d) > bitsOf(a)
}

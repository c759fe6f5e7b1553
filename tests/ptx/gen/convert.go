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
	pair := func(instr, out string) {
		list = append(list, op(instr, out, "f32:cvt", "f32:edge"))
	}
	for _, m := range []string{".rn", ".rz"} {
		for _, relu := range maybe(".relu") {
			pair("cvt"+m+relu+".f16x2.f32", "f16x2")
			pair("cvt"+m+relu+".bf16x2.f32", "bf16x2")
			if relu != "" {
				list = append(list, op("cvt"+m+relu+".f16.f32", "f16", "f32:cvt"), op("cvt"+m+relu+".bf16.f32", "bf16", "f32:cvt"))
			}
		}
	}
	return append(list, op("cvt.rna.tf32.f32", "u32", "f32:cvt"))
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

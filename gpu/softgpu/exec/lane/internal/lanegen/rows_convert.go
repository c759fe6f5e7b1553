package main

import "fmt"

// convertRows are the forms of cvt. The decoder widens results that go to a
// larger register.
func convertRows() []row {
	all := append([]intType{u8, s8}, intTypes...)
	var rows []row
	for _, d := range all {
		for _, s := range all {
			src := s.As("a")
			if !s.Signed && s.Bits < 32 {
				src = fmt.Sprintf("uint32(uint%d(a))", s.Bits)
			}
			form := d.Letter() + "=" + s.Letter()
			rows = append(rows, row{Keys: "cvt." + d.Name + "." + s.Name, Form: form, Expr: signedBack(d, src)})
			wide := "clampS"
			if s.Signed {
				src = "int64(" + src + ")"
			} else {
				src, wide = "uint64("+src+")", "clampU"
			}
			rows = append(rows, row{Keys: "cvt.sat." + d.Name + "." + s.Name, Form: form,
				Expr: signedBack(d, fmt.Sprintf("%s(%s, %d, %v)", wide, src, d.Bits, d.Signed)), Slow: true})
		}
	}
	// Integers to floating point.
	for _, s := range all {
		src := s.As("a")
		if !s.Signed && s.Bits < 32 {
			src = fmt.Sprintf("uint32(uint%d(a))", s.Bits)
		}
		l := s.Letter()
		for _, sat := range []string{"", "sat."} {
			x := func(e string) string {
				if sat != "" {
					return "sat01(" + e + ")"
				}
				return e
			}
			rows = append(rows, row{Keys: "cvt.rn." + sat + "f32." + s.Name, Form: "f=" + l, Expr: x("float32(" + src + ")")})
			for _, m := range []string{"rz", "rm", "rp"} {
				rows = append(rows, row{Keys: "cvt." + m + "." + sat + "f32." + s.Name, Form: "f=" + l, Expr: x(fmt.Sprintf("intTo32(%s, %s)", magnitude(s, src), m)), Slow: true})
			}
		}
		for _, sat := range []string{"", ".sat"} {
			rows = append(rows, row{Keys: "cvt.rn" + sat + ".f64." + s.Name, Form: "g=" + l, Expr: satDouble(sat, "float64("+src+")")})
			for _, m := range []string{"rz", "rm", "rp"} {
				rows = append(rows, row{Keys: "cvt." + m + sat + ".f64." + s.Name, Form: "g=" + l, Expr: satDouble(sat, fmt.Sprintf("intTo64(%s, %s)", magnitude(s, src), m)), Slow: true})
			}
		}
		for _, h := range []string{"f16", "bf16"} {
			for _, m := range []string{"rn", "rz", "rm", "rp"} {
				rows = append(rows, row{Keys: "cvt." + m + ".sat." + h + "." + s.Name, Form: "w=" + l, Expr: fmt.Sprintf("%sRound(satDouble(oddInt(%s)), %s)", h, magnitude(s, src), m), Slow: true})
				rows = append(rows, row{Keys: "cvt." + m + "." + h + "." + s.Name, Form: "w=" + l, Expr: fmt.Sprintf("intTo%s(%s, %s)", upper(h), magnitude(s, src), m), Slow: true})
			}
		}
	}
	// Floating point to integers.
	for _, d := range all {
		for _, s := range []struct{ name, letter, dec string }{
			{name: "f32", letter: "f", dec: "float64(a)"},
			{name: "ftz.f32", letter: "f", dec: "float64(ftz(a))"},
			{name: "f64", letter: "g", dec: "a"},
			{name: "f16", letter: "w", dec: "float64(f16to32(a&0xffff))"},
			{name: "bf16", letter: "w", dec: "float64(bf16to32(a&0xffff))"},
		} {
			for _, m := range []string{"rni", "rzi", "rmi", "rpi"} {
				keys := fmt.Sprintf("cvt.%s.%s.%s", m, d.Name, s.name)
				if len(s.name) > 4 && s.name[:4] == "ftz." {
					keys = fmt.Sprintf("cvt.%s.ftz.%s.%s", m, d.Name, s.name[4:])
				}
				form := d.Letter() + "=" + s.letter
				if m == "rzi" && d.Bits == 32 && d.Signed && s.letter != "w" {
					rows = append(rows, row{Keys: keys, Form: form, Expr: fmt.Sprintf("truncS32(%s, %v)", s.dec, s.letter == "g")})
					continue
				}
				rows = append(rows, row{Keys: keys, Form: form, Slow: true,
					Expr: signedBack(d, fmt.Sprintf("floatToInt(%s, %s, %d, %v, %v)", s.dec, m, d.Bits, d.Signed, s.letter == "g"))})
			}
		}
	}
	return append(rows, floatConversions()...)
}

// signedBack makes a register value of type d from an expression of any integer type.
func signedBack(d intType, expr string) string {
	kind := "uint"
	if d.Signed {
		kind = "int"
	}
	reg := max(d.Bits, 32)
	if d.Bits == reg {
		return fmt.Sprintf("uint%d(%s)", reg, expr)
	}
	if d.Bits == 8 { // a 16-bit register holds the value extended to 16 bits
		return fmt.Sprintf("uint32(uint16(%s8(%s)))", kind, expr)
	}
	return fmt.Sprintf("uint32(uint16(%s))", expr)
}

// magnitude is "negative, absolute value" of an integer expression.
func magnitude(s intType, src string) string {
	if s.Signed {
		return fmt.Sprintf("magS(int64(%s))", src)
	}
	return fmt.Sprintf("magU(uint64(%s))", src)
}

func upper(h string) string {
	if h == "f16" {
		return "F16"
	}
	return "BF16"
}

// narrowing converts a double to float32, by the key of .ftz.
var narrowing = map[string]string{"": "narrow32", ".ftz": "narrowFTZ"}

// modifier is a part of an instruction's name that wraps a call around a value. The zero
// modifier wraps none.
type modifier struct{ key, call string }

func (m modifier) of(expr string) string {
	if m.call == "" {
		return expr
	}
	return m.call + "(" + expr + ")"
}

var relus = []modifier{{}, {key: ".relu", call: "relu"}}

// conversions are forms of cvt between floating-point types.
type conversions []row

func (c *conversions) slow(keys, form, expr string) {
	*c = append(*c, row{Keys: keys, Form: form, Expr: expr, Slow: true})
}

func floatConversions() []row {
	var c conversions
	for _, sat := range []modifier{{}, {key: ".sat", call: "sat01"}} {
		for _, ftz := range []modifier{{}, {key: ".ftz", call: "ftz"}} {
			c.widths(sat, ftz)
			c.halves(sat, ftz)
		}
	}
	c.packed()
	c.eighths()
	c.smalls()
	for _, m := range []string{"rn", "rz", "rm", "rp"} {
		c.slow("cvt."+m+".bf16.f16", "w=w", "bf16Round(float64(f16to32(a&0xffff)), "+m+")")
		c.slow("cvt."+m+".f16.bf16", "w=w", "f16Round(float64(bf16to32(a&0xffff)), "+m+")")
	}
	c = append(c, row{Keys: "cvt.f32.bf16", Form: "w=w", Expr: "a<<16"})
	c.slow("cvt.rna.tf32.f32", "w=w", "tf32Away(a)")
	c.slow("cvt.rna.satfinite.tf32.f32", "w=w", "tf32Finite(tf32Away(a))")
	return c
}

// widths adds the conversions between f32 and f64, and those of a type to itself.
func (c *conversions) widths(sat, ftz modifier) {
	mods := ftz.key + sat.key
	// NaNs are cut, but .ftz makes them canonical.
	if sat.key == "" && ftz.key == "" {
		*c = append(*c, row{Keys: "cvt.rn.f32.f64", Form: "w=g", Expr: "math.Float32bits(float32(a))"})
	} else {
		c.slow("cvt.rn"+mods+".f32.f64", "w=g", "math.Float32bits("+sat.of(narrowing[ftz.key]+"(a, rn)")+")")
	}
	wide := "float64(" + ftz.of("a") + ")"
	if ftz.key != "" {
		wide = "float64(canon32(" + ftz.of("a") + "))"
	}
	*c = append(*c, row{Keys: "cvt" + mods + ".f64.f32", Form: "g=f", Expr: satDouble(sat.key, wide)})
	if mods != "" {
		*c = append(*c, row{Keys: "cvt" + mods + ".f32.f32", Form: "f=f", Expr: sat.of(ftz.of("a"))})
		if ftz.key == "" {
			*c = append(*c, row{Keys: "cvt.sat.f64.f64", Form: "g=g", Expr: "satDouble(a)"})
		}
	}
	for _, m := range []string{"rz", "rm", "rp"} {
		c.slow("cvt."+m+mods+".f32.f64", "w=g", "math.Float32bits("+sat.of(narrowing[ftz.key]+"(a, "+m+")")+")")
	}
	for _, m := range []string{"rni", "rzi", "rmi", "rpi"} {
		c.slow("cvt."+m+mods+".f32.f32", "f=f", sat.of(ftz.of("float32(roundInt(float64("+ftz.of("a")+"), "+m+"))")))
		if ftz.key == "" {
			c.slow("cvt."+m+mods+".f64.f64", "g=g", satDouble(sat.key, "roundInt(a, "+m+")"))
		}
	}
}

// halves adds the conversions from and to f16 and bf16.
func (c *conversions) halves(sat, ftz modifier) {
	mods := ftz.key + sat.key
	for _, h := range []string{"f16", "bf16"} {
		if h == "f16" {
			c.slow("cvt"+mods+".f32.f16", "f=w", sat.of(ftz.of("f16to32(a&0xffff)")))
		}
		for _, m := range []string{"rn", "rz", "rm", "rp"} {
			// .ftz is without effect: the source is not flushed.
			c.slow("cvt."+m+mods+"."+h+".f32", "w=f", h+"Round(float64("+sat.of("a")+"), "+m+")")
		}
		if ftz.key != "" {
			continue
		}
		wide := "float64(" + h + "to32(a&0xffff))"
		c.slow("cvt"+mods+".f64."+h, "g=w", satDouble(sat.key, wide))
		c.slow("cvt"+mods+"."+h+"."+h, "w=w", h+"Round("+satDouble(sat.key, wide)+", rn)")
		for _, m := range []string{"rn", "rz", "rm", "rp"} {
			c.slow("cvt."+m+mods+"."+h+".f64", "w=g", h+"Narrow("+satDouble(sat.key, "a")+", "+m+")")
		}
		for _, m := range []string{"rni", "rzi", "rmi", "rpi"} {
			c.slow("cvt."+m+mods+"."+h+"."+h, "w=w", h+"Round("+satDouble(sat.key, "roundInt("+wide+", "+m+")")+", rn)")
		}
	}
}

// packed adds the conversions to pairs of f16 or bf16, and to tf32.
func (c *conversions) packed() {
	for _, m := range []string{"rn", "rz"} {
		for _, r := range relus {
			for _, h := range []string{"f16", "bf16"} {
				for _, fin := range []modifier{{}, {key: ".satfinite", call: h + "Finite"}} {
					half := func(x string) string {
						return fin.of(fmt.Sprintf("%sRound(float64(%s), %s)", h, r.of(x), m))
					}
					mods := m + r.key + fin.key + "." + h
					c.slow("cvt."+mods+"x2.f32", "w=ff", half("b")+"|"+half("a")+"<<16")
					if mods != m+"."+h {
						c.slow("cvt."+mods+".f32", "w=f", half("a"))
					}
				}
			}
			c.slow("cvt."+m+r.key+".tf32.f32", "w=f", "tf32Round("+r.of("a")+", "+m+")")
		}
	}
}

// eighths adds the conversions from and to pairs of 8 bits.
func (c *conversions) eighths() {
	for _, r := range relus {
		for _, t := range []string{"e4m3", "e5m2"} {
			narrow := func(x string) string { return t + "Round(" + r.of(x) + ")" }
			key := r.key + ".satfinite." + t + "x2."
			c.slow("cvt.rn"+key+"f32", "w=ff", narrow("b")+"|"+narrow("a")+"<<8")
			c.slow("cvt.rn"+key+"f16x2", "w=w", narrow("f16to32(a&0xffff)")+"|"+narrow("f16to32(a>>16)")+"<<8")
			half := func(x string) string {
				if r.key != "" {
					return "f16Relu(" + t + "to16(" + x + "))"
				}
				return t + "to16(" + x + ")"
			}
			c.slow("cvt.rn"+r.key+".f16x2."+t+"x2", "w=w", half("a&0xff")+"|"+half("a>>8&0xff")+"<<16")
		}
	}
}

// smalls adds the conversions from and to pairs of 6 and of 4 bits.
func (c *conversions) smalls() {
	for _, r := range relus {
		for _, t := range []struct {
			name               string
			fraction, exponent int
		}{{name: "e2m3", fraction: 3, exponent: 2}, {name: "e3m2", fraction: 2, exponent: 3}, {name: "e2m1", fraction: 1, exponent: 2}} {
			bits, mask := 8, "0x3f" // those of 6 bits lie in bytes
			if t.name == "e2m1" {
				bits, mask = 4, "0xf"
			}
			narrow := func(x string) string { return fmt.Sprintf("smallRound(%s, %d, %d)", r.of(x), t.fraction, t.exponent) }
			c.slow("cvt.rn"+r.key+".satfinite."+t.name+"x2.f32", "w=ff", narrow("b")+fmt.Sprintf("|%s<<%d", narrow("a"), bits))
			half := func(x string) string {
				x = fmt.Sprintf("smallTo16(%s&%s, %d, %d)", x, mask, t.fraction, t.exponent)
				if r.key != "" {
					return "f16Relu(" + x + ")"
				}
				return x
			}
			c.slow("cvt.rn"+r.key+".f16x2."+t.name+"x2", "w=w", half("a")+"|"+half(fmt.Sprintf("a>>%d", bits))+"<<16")
		}
	}
}

func satDouble(sat, expr string) string {
	if sat != "" {
		return "satDouble(" + expr + ")"
	}
	return expr
}

package ptx

var ieee = []Rounding{RN, RZ, RM, RP}

// floatForms are the single and double precision instructions: 9.7.3.
func floatForms() []Form {
	const s = "9.7.3"
	rnd, ftz, sat := pick(fieldRound, ieee...), opt(flag(FTZ)), opt(flag(Sat))
	f := []Form{
		form(OpTestp, s, "=p:pred a", pick(fieldMode, span(ModeFinite, ModeSubnormal)...), typ(F32, F64)),
		form(OpCopysign, s, dab, typ(F32, F64)),
		form(OpFma, s, dabc, rnd, ftz, sat, typ(F32)),
		form(OpFma, s, dabc, rnd, typ(F64)),
		form(OpMad, s, dabc, rnd, ftz, sat, typ(F32)),
		form(OpMad, s, dabc, rnd, typ(F64)),
		form(OpFma, s, dabc, rnd, ftz, typ(F32x2)).derived(100),
		form(OpDiv, s, dab, flag(Approx|Full), ftz, typ(F32)),
		form(OpDiv, s, dab, rnd, ftz, typ(F32)),
		form(OpDiv, s, dab, rnd, typ(F64)),
		form(OpRcp, s, da, flag(Approx), flag(FTZ), typ(F64)),
		form(OpRsqrt, s, da, flag(Approx), ftz, typ(F32, F64)),
	}
	for _, op := range []Op{OpAdd, OpSub, OpMul} {
		f = append(f,
			form(op, s, dab, opt(rnd), ftz, sat, typ(F32)),
			form(op, s, dab, opt(rnd), typ(F64)),
			form(op, s, dab, opt(rnd), ftz, typ(F32x2)).derived(100))
	}
	for _, op := range []Op{OpAbs, OpNeg} {
		f = append(f,
			form(op, s, da, ftz, typ(F32)),
			form(op, s, da, typ(F64)))
	}
	for _, op := range []Op{OpMin, OpMax} {
		f = append(f,
			form(op, s, dab, ftz, opt(flag(NaN)), opt(flag(XorSign)), opt(flag(Abs)), typ(F32)).with(bothOrNone),
			form(op, s, dab, typ(F64)))
	}
	for _, op := range []Op{OpRcp, OpSqrt} {
		f = append(f,
			form(op, s, da, flag(Approx), ftz, typ(F32)),
			form(op, s, da, rnd, ftz, typ(F32)),
			form(op, s, da, rnd, typ(F64)))
	}
	for _, op := range []Op{OpSin, OpCos, OpLg2, OpEx2} {
		f = append(f, form(op, s, da, flag(Approx), ftz, typ(F32)))
	}
	return append(f, form(OpTanh, s, da, flag(Approx), typ(F32)))
}

// halfForms are the half precision instructions: 9.7.4.
func halfForms() []Form {
	const s = "9.7.4"
	rn, ftz, sat := opt(pick(fieldRound, RN)), opt(flag(FTZ)), opt(flag(Sat))
	f16, bf16 := typ(F16, F16x2), typ(BF16, BF16x2)
	f := []Form{
		form(OpFma, s, dabc, pick(fieldRound, RN), ftz, sat, f16),
		form(OpFma, s, dabc, pick(fieldRound, RN), ftz, flag(Relu), f16),
		form(OpFma, s, dabc, pick(fieldRound, RN), opt(flag(Relu)), bf16),
		form(OpFma, s, dabc, pick(fieldRound, RN), flag(OOB), opt(flag(Relu)), typ(half...)),
		form(OpTanh, s, da, flag(Approx), typ(half...)),
		form(OpEx2, s, da, flag(Approx), f16),
		form(OpEx2, s, da, flag(Approx), flag(FTZ), bf16),
	}
	for _, op := range []Op{OpAdd, OpSub, OpMul} {
		f = append(f,
			form(op, s, dab, rn, ftz, sat, f16),
			form(op, s, dab, rn, bf16))
	}
	for _, op := range []Op{OpAbs, OpNeg} {
		f = append(f,
			form(op, s, da, ftz, f16),
			form(op, s, da, bf16))
	}
	for _, op := range []Op{OpMin, OpMax} {
		nan, xs, abs := opt(flag(NaN)), opt(flag(XorSign)), opt(flag(Abs))
		f = append(f,
			form(op, s, dab, ftz, nan, xs, abs, f16).with(bothOrNone),
			form(op, s, dab, nan, xs, abs, bf16).with(bothOrNone))
	}
	return f
}

// compareForms compare and select: 9.7.5, half precision 9.7.6.
func compareForms() []Form {
	const s, h = "9.7.5", "9.7.6"
	equals, signed := pick(fieldCmp, CmpEQ, CmpNE), pick(fieldCmp, span(CmpEQ, CmpGE)...)
	unsigned, floats := pick(fieldCmp, span(CmpEQ, CmpHS)...), pick(fieldCmp, append(span(CmpEQ, CmpGE), span(CmpEQU, CmpNAN)...)...)
	boolean, ftz := pick(fieldBool, BoolAnd, BoolOr, BoolXor), opt(flag(FTZ))
	intTypes := []Type{B16, B32, B64, U16, U32, U64, S16, S32, S64}
	result := typ(U32, S32, F32)
	f := []Form{
		form(OpSelp, s, "=d a b c:pred", typ(append(intTypes, F32, F64)...)),
		form(OpSlct, s, "=d a b c:s32", typ(append(intTypes, F32, F64)...), typ(S32)),
		form(OpSlct, s, "=d a b c:f32", ftz, typ(append(intTypes, F32, F64)...), typ(F32)),
	}
	// The form with a third operand combines the comparison with a predicate.
	for _, c := range []struct {
		set, setp, single string
		combine           []slot
	}{
		{set: "=d a:1 b:1", setp: "=?p a b", single: "=p:pred a b", combine: nil},
		{set: "=d a:1 b:1 !c", setp: "=?p a b !c", single: "=p:pred a b !c", combine: []slot{boolean}},
	} {
		add := func(op Op, section, args string, cmp slot, rest ...slot) {
			slots := append([]slot{cmp}, c.combine...)
			f = append(f, form(op, section, args, append(slots, rest...)...))
		}
		add(OpSet, s, c.set, equals, result, typ(bits16to64...))
		add(OpSet, s, c.set, signed, result, typ(S16, S32, S64))
		add(OpSet, s, c.set, unsigned, result, typ(U16, U32, U64))
		add(OpSet, s, c.set, floats, ftz, result, typ(F32))
		add(OpSet, s, c.set, floats, result, typ(F64))
		add(OpSetp, s, c.setp, equals, typ(bits16to64...))
		add(OpSetp, s, c.setp, signed, typ(S16, S32, S64))
		add(OpSetp, s, c.setp, unsigned, typ(U16, U32, U64))
		add(OpSetp, s, c.setp, floats, ftz, typ(F32))
		add(OpSetp, s, c.setp, floats, typ(F64))

		add(OpSet, h, c.set, floats, ftz, typ(F16, U16, S16, U32, S32), typ(F16))
		add(OpSet, h, c.set, floats, ftz, typ(F16x2, U32, S32), typ(F16x2))
		add(OpSet, h, c.set, floats, ftz, typ(F16), typ(F32))
		add(OpSet, h, c.set, floats, typ(BF16, U16, S16, U32, S32), typ(BF16))
		add(OpSet, h, c.set, floats, typ(BF16x2, U32, S32), typ(BF16x2))
		add(OpSet, h, c.set, floats, typ(BF16), typ(F32))
		add(OpSetp, h, c.single, floats, ftz, typ(F16))
		add(OpSetp, h, c.setp, floats, ftz, typ(F16x2))
		add(OpSetp, h, c.single, floats, typ(BF16))
		add(OpSetp, h, c.setp, floats, typ(BF16x2))
	}
	return f
}

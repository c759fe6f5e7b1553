package ptx

// Groups of types that rows share.
var (
	int16to64  = []Type{U16, U32, U64, S16, S32, S64}
	int32to64  = []Type{U32, U64, S32, S64}
	bits16to64 = []Type{B16, B32, B64}
	mem8to64   = []Type{B8, B16, B32, B64, U8, U16, U32, U64, S8, S16, S32, S64, F32, F64}
	half       = []Type{F16, F16x2, BF16, BF16x2}
)

const (
	da   = "=d a"
	dab  = "=d a b"
	dabc = "=d a b c"
)

// intForms are the integer instructions: 9.7.1, and with a carry 9.7.2.
func intForms() []Form {
	const s, x = "9.7.1", "9.7.2"
	loHi := pick(fieldMode, ModeHi, ModeLo)
	return []Form{
		form(OpAdd, s, dab, typ(int16to64...)),
		form(OpAdd, s, dab, flag(Sat), typ(S32)),
		form(OpAdd, s, dab, typ(U16x2, S16x2)),
		form(OpSub, s, dab, typ(int16to64...)),
		form(OpSub, s, dab, flag(Sat), typ(S32)),
		form(OpMul, s, dab, loHi, typ(int16to64...)),
		form(OpMul, s, "=d:w a b", pick(fieldMode, ModeWide), typ(U16, U32, S16, S32)),
		form(OpMad, s, dabc, loHi, typ(int16to64...)),
		form(OpMad, s, "=d:w a b c:w", pick(fieldMode, ModeWide), typ(U16, U32, S16, S32)),
		form(OpMad, s, dabc, pick(fieldMode, ModeHi), flag(Sat), typ(S32)),
		form(OpMul24, s, dab, loHi, typ(U32, S32)),
		form(OpMad24, s, dabc, loHi, typ(U32, S32)),
		form(OpMad24, s, dabc, pick(fieldMode, ModeHi), flag(Sat), typ(S32)),
		form(OpSad, s, dabc, typ(int16to64...)),
		form(OpDiv, s, dab, typ(int16to64...)),
		form(OpRem, s, dab, typ(int16to64...)),
		form(OpAbs, s, da, typ(S16, S32, S64)),
		form(OpNeg, s, da, typ(S16, S32, S64)),
		form(OpMin, s, dab, typ(int16to64...)),
		form(OpMin, s, dab, flag(Relu), typ(S32)),
		form(OpMin, s, dab, typ(U16x2, S16x2)),
		form(OpMin, s, dab, flag(Relu), typ(S16x2)),
		form(OpMax, s, dab, typ(int16to64...)),
		form(OpMax, s, dab, flag(Relu), typ(S32)),
		form(OpMax, s, dab, typ(U16x2, S16x2)),
		form(OpMax, s, dab, flag(Relu), typ(S16x2)),
		form(OpPopc, s, "=d:u32 a", typ(B32, B64)),
		form(OpClz, s, "=d:u32 a", typ(B32, B64)),
		form(OpBfind, s, "=d:u32 a", opt(flag(ShiftAmt)), typ(int32to64...)),
		form(OpFns, s, "=d a b:u32 c:s32", typ(B32)),
		form(OpBrev, s, da, typ(B32, B64)),
		form(OpBfe, s, "=d a b:u32 c:u32", typ(int32to64...)),
		form(OpBfi, s, "=d a b c:u32 d:u32", typ(B32, B64)),
		form(OpSzext, s, "=d a b:u32", pick(fieldMode, ModeClamp, ModeWrap), typ(U32, S32)),
		form(OpBmsk, s, "=d a:u32 b:u32", pick(fieldMode, ModeClamp, ModeWrap), typ(B32)),
		form(OpDp4a, s, "=d:x a:b32 b:b32 c:x", typ(U32, S32), typ(U32, S32)),
		form(OpDp2a, s, "=d:x a:b32 b:b32 c:x", pick(fieldMode, ModeLo, ModeHi), typ(U32, S32), typ(U32, S32)),

		form(OpAdd, x, dab, flag(CC), typ(int32to64...)),
		form(OpAddc, x, dab, opt(flag(CC)), typ(int32to64...)),
		form(OpSub, x, dab, flag(CC), typ(int32to64...)),
		form(OpSubc, x, dab, opt(flag(CC)), typ(int32to64...)),
		form(OpMad, x, dabc, loHi, flag(CC), typ(int32to64...)),
		form(OpMadc, x, dabc, loHi, opt(flag(CC)), typ(int32to64...)),
	}
}

// logicForms are the logic and shift instructions: 9.7.7.
func logicForms() []Form {
	const s = "9.7.7"
	bits := typ(Pred, B16, B32, B64)
	return []Form{
		form(OpAnd, s, dab, bits),
		form(OpOr, s, dab, bits),
		form(OpXor, s, dab, bits),
		form(OpNot, s, da, bits),
		form(OpCnot, s, da, typ(bits16to64...)),
		form(OpLop3, s, "=d a b c #lut", typ(B32)),
		form(OpLop3, s, "=|d_ a b c #lut !q", pick(fieldBool, BoolOr, BoolAnd), typ(B32)),
		form(OpShf, s, "=d a b c:u32", pick(fieldMode, ModeLeft, ModeRight), flag(Clamp|Wrap), typ(B32)),
		form(OpShl, s, "=d a b:u32", typ(bits16to64...)),
		form(OpShr, s, "=d a b:u32", typ(B16, B32, B64, U16, U32, U64, S16, S32, S64)),
	}
}

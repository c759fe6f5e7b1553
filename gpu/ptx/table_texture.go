package ptx

// textureForms are textures (9.7.9) and surfaces (9.7.10), as far as the operands are one
// object and coordinates, with a level of detail or gradients.
func textureForms() []Form {
	const tex, surf = "9.7.9", "9.7.10"
	four := pick(fieldVec, uint8(4))
	texels := typ(U32, S32, F32)
	shape := func(gs ...Geometry) slot { return pick(fieldGeometry, gs...) }
	flat := []Geometry{Geometry1D, Geometry2D, Geometry3D, GeometryArray1D, GeometryArray2D}
	cubes := []Geometry{GeometryCube, GeometryArrayCube}
	solid := []Geometry{Geometry1D, Geometry2D, Geometry3D}
	bounds := pick(fieldMode, ModeTrap, ModeClamp, ModeZero)
	bytes := typ(B8, B16, B32, B64)
	vec := opt(pick(fieldVec, uint8(2), uint8(4)))
	sizes := []Mode{ModeWidth, ModeHeight, ModeDepth, ModeChannelType, ModeChannelOrder, ModeArraySize}
	return []Form{
		form(OpTex, tex, "=d~ [[a {offset:s32?", opt(flag(Base)), shape(flat...), four, texels, typ(S32, F32)),
		form(OpTex, tex, "=d~ [[a", opt(flag(Base)), shape(cubes...), four, texels, typ(F32)),
		form(OpTex, tex, "=d~ [[a level:1 {offset:s32?", flag(Level), shape(flat...), four, texels, typ(S32, F32)),
		form(OpTex, tex, "=d~ [[a level:1", flag(Level), shape(cubes...), four, texels, typ(F32)),
		form(OpTex, tex, "=d~ [[a {dx:1 {dy:1", flag(Gradient), shape(append(flat, cubes...)...), four, texels, typ(F32)),
		form(OpTld4, tex, "=d~ [[a {offset:s32?", pick(fieldMode, ModeRight, ModeGreen, ModeBlue, ModeAlpha), shape(Geometry2D, GeometryArray2D), four, texels, typ(F32)),
		form(OpTld4, tex, "=d~ [[a", pick(fieldMode, ModeRight, ModeGreen, ModeBlue, ModeAlpha), shape(GeometryCube, GeometryArrayCube), four, texels, typ(F32)),
		form(OpTxq, tex, "=d [=a", pick(fieldMode, append(sizes, ModeNormalized, ModeLevels)...), typ(B32)),
		form(OpTxq, tex, "=d [=a level:u32", flag(Level), pick(fieldMode, sizes[:3]...), typ(B32)),

		form(OpSuld, surf, "=d~ [[a", flag(Bytes), shape(flat...), opt(pick(fieldCache, CacheCA, CacheCG, CacheCS, CacheCV)), vec, bytes, bounds),
		form(OpSust, surf, "[[a b~", flag(Bytes), shape(flat...), opt(pick(fieldCache, CacheWB, CacheCG, CacheCS, CacheWT)), vec, bytes, bounds),
		form(OpSust, surf, "[[a b~", flag(Samples), shape(flat...), opt(pick(fieldCache, CacheWB, CacheCG, CacheCS, CacheWT)), vec, typ(B32, U32, S32, F32), bounds),
		form(OpSured, surf, "[[a b", flag(Bytes), pick(fieldAtomic, AtomicAdd), shape(solid...), typ(U32, S32, U64), bounds),
		form(OpSured, surf, "[[a b", flag(Bytes), pick(fieldAtomic, AtomicMin, AtomicMax), shape(solid...), typ(U32, S32, U64, S64), bounds),
		form(OpSured, surf, "[[a b", flag(Bytes), pick(fieldAtomic, AtomicAnd, AtomicOr), shape(solid...), typ(B32), bounds),
		form(OpSuq, surf, "=d [=a", pick(fieldMode, sizes...), typ(B32)),
	}
}

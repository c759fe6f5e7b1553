package ptx

import (
	"slices"
	"strings"
)

// argKind is a kind of operand.
type argKind uint8

const (
	argSrc         argKind = iota // register, immediate or special register
	argDst                        // register
	argDstPair                    // d or d|p
	argPreds                      // p or p|q
	argPred                       // p or !p
	argAddr                       // [address]
	argImm                        // integer constant
	argLabel                      // label
	argTargets                    // name of a .branchtargets list
	argSink                       // _ and nothing else
	argMovSrc                     // as argSrc, or the address of a symbol, or a vector to pack
	argMovDst                     // register, or a vector to unpack into
	argPtr                        // as argSrc, or the address of a symbol
	argObject                     // [texture or surface]
	argTexel                      // [texture or surface, {coordinates}]
	argGradient                   // {how coordinates change}
	argFragment                   // {registers} with a part of a matrix, or one register
	argFragmentDst                // the same, as a destination
	argTensor                     // [tensor map, {coordinates}]
	argOffsets                    // {offsets of pixels}
)

// typeRef derives the type of an operand from the instruction's types.
type typeRef uint8

const (
	refFirst  typeRef = iota // Mods.Types[0]
	refSecond                // Mods.Types[1]
	refWide                  // twice as wide as the first
	refHalf                  // element of the packed first type
	refDot                   // dp2a, dp4a: s32 unless both types are unsigned
	refFixed                 // argSpec.fixed
	refAddr                  // u32 or u64, whichever the register is
)

// argSpec describes the operands allowed in one position.
type argSpec struct {
	name     string
	kind     argKind
	ref      typeRef
	fixed    Type
	optional bool
	// relaxed: the register may be wider than the type, and the operand is a
	// vector of Mods.Vec elements where that is set (ld, st, cvt).
	relaxed bool
	sink    bool // "_" may stand here
	parts   selection
	minus   bool // -r may stand here
}

// String returns the operand for people.
func (a *argSpec) String() string {
	switch a.kind {
	case argDstPair:
		return a.name + "{|p}"
	case argPreds:
		return "p{|q}"
	case argPred:
		return "{!}" + a.name
	case argSink:
		return "_"
	case argAddr:
		return "[" + a.name + "]"
	case argObject:
		return "[" + a.name + "]"
	case argTexel, argTensor:
		return "[" + a.name + ", c]"
	}
	name := a.name
	if a.parts != selectNone {
		name += "{." + selectionNames[a.parts] + "}"
	}
	if a.minus {
		name = "{-}" + name
	}
	return name
}

var fixedTypes = map[string]Type{"b8": B8, "b16": B16, "b32": B32, "b64": B64, "u16": U16, "u32": U32, "s32": S32, "u64": U64,
	"f32": F32, "f16x2": F16x2, "pred": Pred}

// parseArgs reads an operand pattern: operands separated by spaces, each a name
// followed by a colon and the type: 0 or 1 for the instruction's first or
// second, w for twice the first, h for an element of it, x for dp2a's and
// dp4a's, a for an address, or a fixed type. Without a colon it is 0.
//
// In front of the name: "=" a destination, "=|" one that may have a predicate
// beside it, "=?" predicates, "!" a predicate that may be negated, "[" an
// address, "[=" a texture or surface, "[[" one with coordinates, "[%" a tensor map with
// coordinates, "{" a gradient, "{%" the offsets of pixels, "#" a constant, ">" a label, "@" the name of a list, "=&" and "&"
// the operands of mov, "*" a pointer, "__" nothing but a sink, "%" and "%=" the registers of a matrix, which the name tells. Behind the type: "~" relaxed, "_" a sink
// may stand there, "?" optional. At the end, a full stop and the parts of a register that may be
// selected, as selectionNames has them; "-" in front of that: the register may be negated.
func parseArgs(pattern string) []argSpec {
	var specs []argSpec
	for _, w := range strings.Fields(pattern) {
		var a argSpec
		for _, p := range argPrefixes {
			if rest, ok := strings.CutPrefix(w, p.prefix); ok {
				a.kind, w = p.kind, rest
				break
			}
		}
		w, parts, _ := strings.Cut(w, ".")
		parts, a.minus = strings.CutPrefix(parts, "-")
		a.parts = selection(slices.Index(selectionNames[:], parts))
		w, a.optional = strings.CutSuffix(w, "?")
		w, a.sink = strings.CutSuffix(w, "_")
		w, a.relaxed = strings.CutSuffix(w, "~")
		name, t, _ := strings.Cut(w, ":")
		a.name = name
		switch t {
		case "", "0":
			a.ref = refFirst
		case "1":
			a.ref = refSecond
		case "w":
			a.ref = refWide
		case "h":
			a.ref = refHalf
		case "x":
			a.ref = refDot
		case "a":
			a.ref = refAddr
		default:
			a.ref, a.fixed = refFixed, fixedTypes[t]
		}
		if a.kind == argPred || a.kind == argPreds {
			a.ref, a.fixed = refFixed, Pred
		}
		specs = append(specs, a)
	}
	return specs
}

var argPrefixes = []struct {
	prefix string
	kind   argKind
}{
	{"%=", argFragmentDst}, {"%", argFragment}, {"=|", argDstPair}, {"=?", argPreds}, {"=&", argMovDst}, {"=", argDst}, {"!", argPred}, {"[%", argTensor}, {"{%", argOffsets}, {"[=", argObject}, {"[[", argTexel}, {"{", argGradient}, {"[", argAddr},
	{"#", argImm}, {">", argLabel}, {"@", argTargets}, {"__", argSink}, {"&", argMovSrc}, {"*", argPtr},
}

// resolve returns the type of the operand in an instruction with modifiers m.
func (a *argSpec) resolve(m *Mods) Type {
	switch a.ref {
	case refFirst:
		return m.Types[0]
	case refSecond:
		return m.Types[1]
	case refWide:
		switch m.Types[0] {
		case U16:
			return U32
		case S16:
			return S32
		case U32:
			return U64
		}
		return S64
	case refHalf:
		switch m.Types[0] {
		case F16x2:
			return F16
		case BF16x2:
			return BF16
		}
		return m.Types[0]
	case refDot:
		if m.Types[0] == U32 && m.Types[1] == U32 {
			return U32
		}
		return S32
	case refAddr:
		return U64
	}
	return a.fixed
}

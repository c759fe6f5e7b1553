package headers

import (
	"fmt"
	"regexp"
	"strings"

	"pvdrm/internal/cudalibs"
)

// Words of types that are 64 bits wide and no pointers.
var wide = regexp.MustCompile(`\b(?:int64_t|uint64_t|size_t|ptrdiff_t|long)\b`)

// pointer reports whether a type is a pointer, and to what.
func pointer(t string) (of string, ok bool) {
	t = squeeze(strings.TrimSuffix(t, "const"))
	of, ok = strings.CutSuffix(t, "*")
	return squeeze(strings.ReplaceAll(of, "const", "")), ok
}

// kind is the name of the kind of handles of a type.
func kind(t string) string {
	t = strings.TrimSuffix(strings.TrimSuffix(t, "_t"), "Descriptor")
	return strings.ToLower(strings.ReplaceAll(t, "Const", ""))
}

var (
	asks     = regexp.MustCompile(`Get|bufferSize|BufferSize|_buffersize|Query|WorkspaceSize|Estimate|nnz$`)
	prepares = regexp.MustCompile(`Destroy|Set[A-Z]`)
	number   = regexp.MustCompile(`^(?:alpha|beta)(?:[A-Z]\w*)?$`) // as betaDataDiff
)

// Propose is a row for a function, to be looked over by a person: it cannot know which pointers are
// to memory of the host, and how much.
func Propose(p Prototype, h Header) string {
	var words []string
	device := false
	for _, d := range p.Params {
		w := word(p, d, h)
		device = device || w == "D" || w == "S"
		words = append(words, w)
	}
	mode := "late"
	switch {
	case strings.Contains(p.Returns, "char"):
		mode = "text"
	case strings.Contains(p.Returns, "size_t"):
		mode = "number"
	case asks.MatchString(p.Name), strings.Contains(strings.Join(words, " "), "+"), strings.Contains(strings.Join(words, " "), ">"):
		mode = "control"
	case device && !prepares.MatchString(p.Name):
		mode = "async"
	}
	return p.Name + " " + mode + " " + strings.Join(words, " ")
}

// word is the word for a parameter.
func word(p Prototype, d Declared, h Header) string {
	of, isPointer := pointer(d.Type)
	base := strings.TrimPrefix(d.Type, "const ")
	switch {
	case base == "cudaStream_t":
		return "s"
	case h.Handles[base] && strings.Contains(p.Name, "Destroy"):
		return "-" + kind(base)
	case h.Handles[base]:
		return "@" + kind(base)
	case isPointer && h.Handles[of]:
		return "+" + kind(of)
	case isPointer && of == "char":
		return "c"
	case isPointer && number.MatchString(d.Name):
		return "S"
	case isPointer && asks.MatchString(p.Name) && of == "size_t":
		return ">8"
	case isPointer && asks.MatchString(p.Name) && strings.HasPrefix(of, "int"):
		return fmt.Sprintf(">%d", map[bool]int{true: 8, false: 4}[wide.MatchString(of)])
	case isPointer:
		return "D"
	case wide.MatchString(base):
		return "l"
	case base == "float":
		return "f"
	case base == "double":
		return "d"
	}
	return "i"
}

// Check says what of a row does not fit the prototype, or nothing: the number of parameters, and for
// each whether it is a pointer, a handle, a stream, and how wide.
func Check(f *cudalibs.Function, p Prototype, h Header) string {
	if f.Mode == cudalibs.None {
		return ""
	}
	if len(f.Params) != len(p.Params) {
		return fmt.Sprintf("%d parameters, the header has %d", len(f.Params), len(p.Params))
	}
	for i, d := range p.Params {
		if want := word(p, d, h); !fits(f.Params[i].Class, want, d, h) {
			return fmt.Sprintf("parameter %d is %s %s, as %s; the row has class %d", i, d.Type, d.Name, want, f.Params[i].Class)
		}
	}
	return ""
}

// fits reports whether a class can stand for what a header declares.
func fits(c cudalibs.Class, want string, d Declared, h Header) bool {
	_, isPointer := pointer(d.Type)
	switch c {
	case cudalibs.Device:
		return isPointer && want != "S"
	case cudalibs.Int32:
		return want == "i"
	case cudalibs.Int64:
		return want == "l"
	case cudalibs.Float:
		return want == "f"
	case cudalibs.Double:
		return want == "d"
	case cudalibs.Stream:
		return want == "s"
	case cudalibs.Use, cudalibs.Destroy:
		return want[0] == '@' || want[0] == '-' || strings.Contains(d.Type, "Handle") || strings.Contains(d.Type, "_t") && want == "i" || isPointer // of another header
	}
	return isPointer || h.Handles[strings.TrimPrefix(d.Type, "const ")]
}

// Package headers reads what NVIDIA's headers declare, and proposes rows of package cudalibs's table
// for it. It serves people who extend the table: nothing of it is needed to build PVDRM.
package headers

import (
	"regexp"
	"strings"
)

// Prototype is a function that a header declares.
type Prototype struct {
	Name    string
	Returns string
	Params  []Declared
}

// Declared is a parameter of a prototype.
type Declared struct{ Type, Name string }

// Header is what one header declares.
type Header struct {
	Prototypes []Prototype
	Handles    map[string]bool // types that are pointers to something opaque
}

var (
	comments   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	directives = regexp.MustCompile(`(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$`)
	bodies     = regexp.MustCompile(`(?s)static\s+(?:__inline__|inline)\s[^;{]*\{`)
	attributes = regexp.MustCompile(`__attribute__\s*\(\([^()]*(?:\([^()]*\))?[^()]*\)\)|\b[A-Z]+_DEPRECATED(?:_ENUM|_REPLACE_WITH)?\b(?:\([^()]*\))?`)
	prototypes = regexp.MustCompile(`(?s)([A-Za-z_][\w \t\n]*?[\w\s*])\b(\w+)\s*\(([^(){};]*)\)\s*;`)
	handles    = regexp.MustCompile(`typedef\s+(?:const\s+)?(?:struct\s+)?\w+\s*(?:const)?\s*\*\s*(\w+)\s*;`)
)

// Parse reads the text of a header. Only functions whose names begin with the prefix count.
func Parse(text, prefix string) Header {
	text = directives.ReplaceAllString(comments.ReplaceAllString(text, " "), " ")
	text = attributes.ReplaceAllString(text, " ")
	text = withoutBodies(text)
	h := Header{Handles: map[string]bool{}}
	for _, m := range handles.FindAllStringSubmatch(text, -1) {
		h.Handles[m[1]] = true
	}
	seen := map[string]bool{}
	for _, m := range prototypes.FindAllStringSubmatch(text, -1) {
		name := m[2]
		if !strings.HasPrefix(name, prefix) || seen[name] || strings.Contains(m[1], "typedef") {
			continue
		}
		seen[name] = true
		h.Prototypes = append(h.Prototypes, Prototype{Name: name, Returns: squeeze(m[1]), Params: declared(m[3])})
	}
	return h
}

// withoutBodies drops functions that a header defines.
func withoutBodies(text string) string {
	for {
		at := bodies.FindStringIndex(text)
		if at == nil {
			return text
		}
		depth, end := 1, at[1]
		for ; end < len(text) && depth > 0; end++ {
			switch text[end] {
			case '{':
				depth++
			case '}':
				depth--
			}
		}
		text = text[:at[0]] + text[end:]
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// declared splits the parameters of a prototype.
func declared(text string) (all []Declared) {
	for part := range strings.SplitSeq(text, ",") {
		part = squeeze(strings.NewReplacer("*", " * ", "[]", " [] ", "__restrict__", "").Replace(part))
		if part == "" || part == "void" {
			continue
		}
		words := strings.Fields(part)
		d := Declared{}
		for len(words) > 0 && strings.HasPrefix(words[len(words)-1], "[") { // an array is a pointer
			words = words[:len(words)-1]
			d.Type = " *"
		}
		if last := words[len(words)-1]; len(words) > 1 && last != "*" && last != "const" {
			if at := strings.IndexByte(last, '['); at >= 0 {
				last, d.Type = last[:at], " *"
			}
			d.Name, words = last, words[:len(words)-1]
		}
		d.Type = strings.Join(words, " ") + d.Type
		all = append(all, d)
	}
	return all
}

package fatbin

import (
	"bytes"
	"debug/elf"
	"regexp"
)

// Callers are the functions of an image that may call one function, themselves or through others.
type Callers struct {
	all   bool // it is not known which do not
	names map[string]bool
}

// May reports whether the function of a name may call it.
func (c *Callers) May(name string) bool { return c.all || c.names[name] }

// CallersOf returns which functions of PTX, of a cubin or of a fatbin may call a function that none of them defines, such as
// vprintf. Machine code has a table of calls, .nv.callgraph; where that does not tell, all may. In what cannot be read none
// does: no device runs it.
func CallersOf(image []byte, callee string) *Callers {
	c := &Callers{names: map[string]bool{}}
	images, _, err := Images(image)
	if err != nil {
		c.add(image, callee)
		return c
	}
	for i := range images {
		if data, err := images[i].Contents(); err == nil {
			c.add(data, callee)
		}
	}
	return c
}

func (c *Callers) add(image []byte, callee string) {
	if c.all || !bytes.Contains(image, []byte(callee)) {
		return
	}
	g := &calls{of: map[string][]string{}}
	if Is(image) {
		g.readMachine(image)
	} else {
		g.readText(image)
	}
	// From the callee to those that call it, and so on. Each function is looked at once.
	todo := append([]string{callee}, g.unknown...)
	c.all = len(g.of[callee]) == 0 && len(g.unknown) == 0
	for seen := map[string]bool{}; len(todo) > 0; {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[name] {
			continue
		}
		seen[name], c.names[name] = true, true
		todo = append(todo, g.of[name]...)
	}
}

// calls says who calls a function.
type calls struct {
	of      map[string][]string
	unknown []string // functions that call by an address
}

// The table of calls of machine code: pairs of the numbers of two symbols, who calls and what is called, as nvcc 13.0 makes them
// for code of sm_90. A pair with 0 begins another part of it.
const (
	callTable = ".nv.callgraph"
	callBytes = 8

	byName      = 0xffffffff // who calls, and what
	byAddress   = 0xfffffffd // who calls by an address
	ofAddresses = 0xfffffffc // who calls, and what it may be
)

// readMachine reads the table of calls of an ELF file. In one that is damaged it finds nothing.
func (g *calls) readMachine(image []byte) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return
	}
	section := f.Section(callTable)
	symbols, err := f.Symbols() // without the first one, which has no name
	if section == nil || err != nil {
		return
	}
	table, err := section.Data()
	if err != nil {
		return
	}
	part := uint32(byName)
	for ; len(table) >= callBytes; table = table[callBytes:] {
		from, to := le.Uint32(table), le.Uint32(table[4:])
		n := uint32(len(symbols))
		switch {
		case from == 0:
			part = to
		case from > n:
		case part == byAddress, to == 0, to > n:
			g.unknown = append(g.unknown, symbols[from-1].Name)
		case part == byName, part == ofAddresses:
			callee := symbols[to-1].Name
			g.of[callee] = append(g.of[callee], symbols[from-1].Name)
		}
	}
}

var (
	functionHead = regexp.MustCompile(`\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$%]+)`)
	callText     = regexp.MustCompile(`\bcall(?:\.uni)?\s[^;]*;`)
	anyName      = regexp.MustCompile(`[A-Za-z_$%][\w$%]*`)
)

// readText reads the calls of PTX, as its text says them. One with a prototype or a list of targets calls by an address.
func (g *calls) readText(ptx []byte) {
	heads := functionHead.FindAllSubmatchIndex(ptx, -1)
	for i, h := range heads {
		end := len(ptx)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		name, body := string(ptx[h[2]:h[3]]), ptx[h[1]:end]
		if bytes.Contains(body, []byte(".callprototype")) || bytes.Contains(body, []byte(".calltargets")) {
			g.unknown = append(g.unknown, name)
		}
		for _, call := range callText.FindAll(body, -1) {
			for _, callee := range anyName.FindAll(call, -1) {
				g.of[string(callee)] = append(g.of[string(callee)], name)
			}
		}
	}
}

package cudalibs

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The files in tables, one for each library. A line is empty, a comment that begins with #, or one of
//
//	library NAME              the library that the lines behind it are of
//	names FILE …              names of its file, the newest first
//	unversed                  its symbols have no versions
//	header FILE               where its functions are declared
//	codes invalid=N handle=N memory=N unsupported=N failed=N internal=N
//	kind NAME [int] [stream] [=OTHER] [SLOT …]   a kind of handles; a slot with ! goes with the stream;
//	                          those of kind OTHER, of a library above, do as well
//	warm MAKE DESTROY NUMBER …          what makes the library start: MAKE has a handle and numbers; with
//	                                    keep in their place, a worker keeps the handle for its guest
//	FUNCTION MODE PARAMETER …           a function
//	FUNCTION none WORDS …               one that is not supported, and why
//
// Texts, and what has :constant behind its mode, need no context and always answer alike. One with a handle
// does so where that is null. What has :pure only answers, by its arguments and what it was told of its
// descriptors. With :late=16 it is late where its handle was made with the number 16.
//
// In a line of a function, [A|B] stands for two lines, with A and with B, and {A|B} likewise, where all
// braces of a line have the same choice. Parameters are
//
//	i l f d    an integer of 32 or 64 bits, a float, a double
//	n          l in a function whose name ends in _64, else i
//	D          an address for the GPU
//	S R8       a number by pointer mode, and a result of 8 bytes by pointer mode
//	<4*$2      host memory that is read, here 4 bytes for each of argument 2; >4 is written, <>4 both.
//	           t$2 is the size of the cudaDataType in argument 2
//	W$2        host memory to work in
//	s          a stream
//	@K +K -K   a handle of kind K that is used, made, destroyed
//	c 0        a C string, a null pointer
//	T U        an array with type and count before it, that is read or filled
//
//go:embed tables/*.txt
var files embed.FS

// order is that of libraries, and so of the indices of functions.
var order = []string{"cublas", "cublaslt", "cudnn", "cufft", "curand", "cusparse", "cusolver"}

func parseAll() (*Table, error) {
	t := &Table{names: map[string]*Function{}, kinds: map[string]*Kind{}}
	for _, name := range order {
		text, err := files.ReadFile("tables/" + name + ".txt")
		if err != nil {
			return nil, err
		}
		if err := t.add(string(text)); err != nil {
			return nil, fmt.Errorf("tables/%s.txt: %w", name, err)
		}
	}
	t.Sum = t.sum()
	return t, nil
}

// add parses a file.
func (t *Table) add(text string) error {
	l := &Library{Number: len(t.Libraries), setStream: map[*Kind]*Function{}}
	t.Libraries = append(t.Libraries, l)
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := t.line(l, words); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if len(l.Names) == 0 {
		return errors.New("the library has no names")
	}
	return t.findWarm(l)
}

func (t *Table) line(l *Library, words []string) error {
	switch rest := words[1:]; words[0] {
	case "library":
		l.Name = rest[0]
	case "names":
		l.Names = rest
	case "unversed":
		l.Unversed = true
	case "header":
		l.Header = rest[0]
	case "warm":
		l.warm = rest
	case "codes":
		return l.codes(rest)
	case "kind":
		return t.kind(l, rest)
	default:
		rows, err := expand(words)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := t.function(l, row); err != nil {
				return fmt.Errorf("%s: %w", row[0], err)
			}
		}
	}
	return nil
}

func (l *Library) codes(words []string) error {
	to := map[string]*uint32{"invalid": &l.Codes.Invalid, "handle": &l.Codes.Handle, "memory": &l.Codes.Memory,
		"unsupported": &l.Codes.Unsupported, "failed": &l.Codes.Failed, "internal": &l.Codes.Internal}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		v, err := strconv.ParseUint(value, 10, 32)
		if err != nil || to[name] == nil || v == 0 {
			return fmt.Errorf("code %q", w)
		}
		*to[name] = uint32(v)
		delete(to, name)
	}
	if len(to) > 0 {
		return fmt.Errorf("%d codes are missing", len(to))
	}
	return nil
}

func (t *Table) kind(l *Library, words []string) error {
	k := &Kind{Name: words[0], Library: l}
	for _, w := range words[1:] {
		switch name, reset := strings.CutSuffix(w, "!"); {
		case w == "int":
			k.Int = true
		case w == "stream":
			k.Streams = true
		case strings.HasPrefix(w, "="):
			if k.Also = t.kinds[w[1:]]; k.Also == nil {
				return fmt.Errorf("kind %s: no kind %s above it", k.Name, w[1:])
			}
		default:
			k.Slots = append(k.Slots, Slot{Name: name, Reset: reset})
		}
	}
	if t.kinds[k.Name] != nil || len(k.Slots) > maxSlots {
		return fmt.Errorf("kind %s: a second one, or too many slots", k.Name)
	}
	t.kinds[k.Name] = k
	l.Kinds = append(l.Kinds, k)
	return nil
}

// expand makes the rows that a line with choices stands for.
func expand(words []string) ([][]string, error) {
	lines := []string{strings.Join(words, " ")}
	for {
		open := strings.IndexByte(lines[0], '[')
		if open < 0 {
			break
		}
		var more []string
		for _, line := range lines {
			open, end := strings.IndexByte(line, '['), strings.IndexByte(line, ']')
			if open < 0 || end < open {
				return nil, fmt.Errorf("brackets in %q", line)
			}
			for choice := range strings.SplitSeq(line[open+1:end], "|") {
				more = append(more, line[:open]+choice+line[end+1:])
			}
		}
		lines = more
	}
	var rows [][]string
	for _, line := range lines {
		all, err := braces(line)
		if err != nil {
			return nil, err
		}
		rows = append(rows, all...)
	}
	return rows, nil
}

// braces makes a row for each choice of the braces of a line.
func braces(line string) (rows [][]string, err error) {
	choices := -1
	for rest := line; ; {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			break
		}
		inside, more, ok := strings.Cut(after, "}")
		n := strings.Count(inside, "|") + 1
		if !ok || choices >= 0 && n != choices {
			return nil, fmt.Errorf("braces in %q", line)
		}
		choices, rest = n, more
	}
	for i := range max(choices, 1) {
		made := line
		for range strings.Count(line, "{") {
			before, after, _ := strings.Cut(made, "{")
			inside, rest, _ := strings.Cut(after, "}")
			made = before + strings.Split(inside, "|")[i] + rest
		}
		rows = append(rows, strings.Fields(made))
	}
	return rows, nil
}

func (t *Table) function(l *Library, row []string) error {
	f := &Function{Name: row[0], Index: uint32(len(t.Functions)), Library: l}
	if len(row) < 2 || t.names[f.Name] != nil {
		return errors.New("no mode, or a second row")
	}
	mode, slot, _ := strings.Cut(row[1], ":")
	known := false
	if f.Mode, known = modeNames[mode]; !known {
		return fmt.Errorf("mode %q", row[1])
	}
	if f.Mode == None {
		f.Why = strings.Join(row[2:], " ")
		if f.Why == "" {
			return errors.New("no reason")
		}
	} else {
		for _, word := range row[2:] {
			p, err := t.param(f, word)
			if err != nil {
				return fmt.Errorf("parameter %q: %w", word, err)
			}
			f.Params = append(f.Params, p)
		}
		if err := f.check(); err != nil {
			return err
		}
	}
	if f.Mode == Set || f.Mode == Get {
		if err := f.findSlot(slot); err != nil {
			return err
		}
	} else if err := f.findAnswers(slot); err != nil {
		return err
	}
	t.names[f.Name] = f
	t.Functions = append(t.Functions, f)
	l.Functions = append(l.Functions, f)
	return nil
}

// findAnswers finds out how a function answers, by the word behind its mode.
func (f *Function) findAnswers(word string) (err error) {
	if f.Mode == Control && word == "pure" {
		f.Pure = true
		return nil
	}
	if number, ok := strings.CutPrefix(word, "late="); ok && f.Mode == Control {
		n, err := strconv.ParseUint(number, 10, 31)
		if f.LateFor = uint32(n); err != nil || n == 0 {
			return fmt.Errorf("%q behind the mode", word)
		}
		return nil
	}
	return f.findConstant(word)
}

// findConstant finds out whether a function always answers alike, which it does by a number at most.
func (f *Function) findConstant(word string) error {
	f.Constant = f.Mode == Text || word == "constant" && (f.Mode == Control || f.Mode == Number)
	if word != "" && !f.Constant {
		return fmt.Errorf("%q behind the mode", word)
	}
	if !f.Constant {
		return nil
	}
	var n [Found + 1]int
	for _, p := range f.Params {
		n[p.Class]++
	}
	if n[Int32] > 1 || n[Out] > 1 || n[Use] > 1 || n[Use] > 0 && f.Mode == Text || n[Int32]+n[Out]+n[Null]+n[Use] < len(f.Params) {
		return errors.New("a constant with such parameters")
	}
	return nil
}

var simple = map[string]Class{"i": Int32, "l": Int64, "f": Float, "d": Double, "D": Device, "S": Scalar, "s": Stream,
	"c": String, "0": Null, "T": Typed, "U": Found}

func (t *Table) param(f *Function, word string) (p Param, err error) {
	if word == "n" {
		word = "i"
		if strings.HasSuffix(f.Name, "_64") {
			word = "l"
		}
	}
	if c, ok := simple[word]; ok {
		return Param{Class: c}, nil
	}
	for _, form := range []struct {
		prefix string
		class  Class
	}{
		{prefix: "<>", class: InOut}, {prefix: "<", class: In}, {prefix: ">", class: Out}, {prefix: "R", class: Result}, {prefix: "W", class: Work},
		{prefix: "@", class: Use}, {prefix: "+", class: Create}, {prefix: "-", class: Destroy},
	} {
		rest, ok := strings.CutPrefix(word, form.prefix)
		if !ok {
			continue
		}
		p.Class = form.class
		if form.class >= Use {
			if p.Kind = t.kinds[rest]; p.Kind == nil {
				return p, errors.New("no such kind")
			}
			return p, nil
		}
		p.Size, err = parseExpr(rest)
		return p, err
	}
	return p, errors.New("no such class")
}

// check checks what the parts of a row say of each other.
func (f *Function) check() error {
	floats := 0
	for i, p := range f.Params {
		for _, term := range p.Size.terms {
			for _, x := range term {
				if x.arg >= len(f.Params) || x.arg >= 0 && f.Params[x.arg].Class > Int64 {
					return fmt.Errorf("the size of parameter %d depends on %d", i, x.arg)
				}
			}
		}
		switch p.Class {
		case Float, Double:
			floats++
		case Typed, Found:
			if at, n := typedArgs(p.Class, i); at < 0 || f.Params[at].Class > Int64 || f.Params[n].Class > Int64 {
				return errors.New("an array without type and count before it")
			}
		}
	}
	if floats > MaxFloats || len(f.Params) > MaxParams {
		return fmt.Errorf("%d parameters, %d of them floats", len(f.Params), floats)
	}
	if f.Mode == Async && f.Primary() < 0 && f.StreamParam() < 0 {
		f.Mode = Late // it has no stream
	}
	if f.Mode == Async && slices.ContainsFunc(f.Params, func(p Param) bool { return p.Class >= Out && p.Class <= Work }) {
		f.Mode = Sync
	}
	if f.Mode == Late && slices.ContainsFunc(f.Params, func(p Param) bool { return p.Class == Out || p.Class == InOut || p.Class == Result || p.Class == Found }) {
		return errors.New("a result of a call that nobody waits for")
	}
	return nil
}

// findWarm finds what makes a library start.
func (t *Table) findWarm(l *Library) error {
	if len(l.warm) == 0 {
		return nil
	}
	w := &Warm{Make: t.names[l.warm[0]], Destroy: t.names[l.warm[1]]}
	for _, word := range l.warm[2:] {
		if word == "keep" {
			w.Keep = true
			continue
		}
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return err
		}
		w.Numbers = append(w.Numbers, n)
	}
	if w.Make == nil || w.Destroy == nil || len(w.Make.Params) != 1+len(w.Numbers) || w.Make.Params[0].Class != Create {
		return fmt.Errorf("warm %v", l.warm)
	}
	l.Warm = w
	return nil
}

// typedArgs says which arguments are the type and the count of an array at i. Where the function
// fills it, where their number goes comes between.
func typedArgs(c Class, i int) (kind, count int) {
	if c == Found {
		i--
	}
	return i - 2, i - 1
}

// Bounds of a row.
const (
	MaxParams = 38
	MaxFloats = 8
)

// findSlot finds the slot of a Set or Get, which is -1 for the stream.
func (f *Function) findSlot(name string) error {
	if len(f.Params) < 2 || f.Params[0].Class != Use {
		return errors.New("a part of the state of no handle")
	}
	k := f.Params[0].Kind
	if name == "stream" && k.Streams {
		f.Slot = -1
		if f.Mode == Set {
			f.Library.setStream[k] = f
		}
		return nil
	}
	f.Slot = slices.IndexFunc(k.Slots, func(s Slot) bool { return s.Name == name })
	if f.Slot < 0 {
		return fmt.Errorf("no slot %q", name)
	}
	if f.Mode == Set && k.Slots[f.Slot].Setter == nil {
		s := &k.Slots[f.Slot]
		s.Setter, s.Words = f, len(f.Params)-1
		if s.Words > slotWords {
			return errors.New("too many words of state")
		}
		s.Default = make([]uint64, s.Words)
	}
	return nil
}

package capi

import (
	_ "embed" // versions.txt
	"strconv"
	"strings"

	"pvdrm/frontend/cuda"
)

// Flags of cuGetProcAddress.
const (
	procLegacyStream    = 1
	procPerThreadStream = 2
	procFlags           = 3
)

// Values of CUdriverProcAddressQueryResult.
const (
	procFound         = 0
	procNotFound      = 1
	procNotSufficient = 2
)

// choice is the symbol that a name means from a CUDA version on.
type choice struct {
	version int // 1000 × major + 10 × minor
	symbol  int // index in symbols; -1 where the library has another signature only
}

// versions.txt says what NVIDIA's library answers; its first lines say which one, and the form.
//
//go:embed versions.txt
var versionsText string

// choices has, for each name without its version, what it means; in the second map with the
// default stream of each thread. since has the version from which a symbol is given. Made by init.
var (
	choices [2]map[string][]choice
	since   map[string]int
)

// widened is the CUDA version that made device pointers and sizes 64 bits wide. Older
// functions have the same names as ours without a version, and other signatures.
const widened = 3020

func readVersions(text string) {
	index := map[string]int{}
	for i, s := range symbols {
		index[s.Name] = i
	}
	choices, since = [2]map[string][]choice{{}, {}}, map[string]int{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		plain, perThread, differs := strings.Cut(line, "|")
		words := strings.Fields(plain)
		name := words[0]
		choices[0][name] = readChoices(words[1:], index)
		choices[1][name] = choices[0][name]
		if differs {
			choices[1][name] = readChoices(strings.Fields(perThread), index)
		}
	}
}

// readChoices reads words of the form version:symbol. Some names changed at 3.2 to functions
// with wider arguments, and have an old one before.
func readChoices(words []string, index map[string]int) []choice {
	var all []choice
	for _, w := range words {
		number, symbol, _ := strings.Cut(w, ":")
		version, err := strconv.Atoi(number)
		i, ours := index[symbol]
		if err != nil || !ours {
			panic("versions.txt: " + w)
		}
		since[symbol] = version
		if len(all) > 0 && version == widened && all[len(all)-1].version < widened {
			all[len(all)-1].symbol = -1
		}
		all = append(all, choice{version, i})
	}
	return all
}

// resolve finds the symbol that a program built for a CUDA version means by a
// name without its version, as cuGetProcAddress does. How tells what was wrong
// when there is none.
func resolve(name string, version int, perThread bool) (index, how int) {
	list := choices[0][name]
	if perThread {
		list = choices[1][name]
	}
	if len(list) == 0 {
		return -1, procNotFound
	}
	index = -1
	for _, c := range list {
		if c.version <= version {
			index = c.symbol
		}
	}
	if index < 0 {
		return -1, procNotSufficient
	}
	return index, procFound
}

func (c *call) procAddress(status int) error {
	to, err := c.out64(1)
	if err != nil {
		return err
	}
	name, err := c.text(0)
	if err != nil {
		return err
	}
	if c.u64(3)&^procFlags != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u64(3))
	}
	perThread := c.u64(3) == procPerThreadStream || c.u64(3) == 0 && c.perThread
	i, how := resolve(name, int(c.i32(2)), perThread)
	if status >= 0 && c.u64(status) != 0 {
		st, err := c.out32(status)
		if err != nil {
			return err
		}
		if err := st.set(uint64(how)); err != nil {
			return err
		}
	}
	if i < 0 {
		if err := to.set(0); err != nil {
			return err
		}
		if status >= 0 {
			return nil // the status says why there is none, and the null pointer
		}
		return c.fail(cuda.ErrNotFound, "there is no %s for CUDA %d", name, c.i32(2))
	}
	return to.set(c.lib.cfg.Symbol(i))
}

func getProcAddress(c *call) error   { return c.procAddress(-1) }
func getProcAddressV2(c *call) error { return c.procAddress(4) }

// profiler calls have nothing to start or stop.
func nothing(*call) error { return nil }

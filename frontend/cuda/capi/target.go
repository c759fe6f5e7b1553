package capi

import (
	"bytes"
	"strconv"
	"strings"
)

// ptxTarget is the virtual architecture that PTX was compiled for, compute capability × 10: the
// number in its .target sm_N or compute_N (PTX ISA, 11.1.2), which suffixes such as the a of sm_90a may follow;
// 0 where there is none. Libraries such as CUB choose what to launch a kernel with by it.
func ptxTarget(ptx []byte) uint32 {
	word := ""
	for {
		last := word
		if word, ptx = nextWord(ptx); word == "" {
			return 0
		}
		if last != ".target" {
			continue
		}
		digits, ok := bytes.CutPrefix([]byte(word), []byte("sm_"))
		if !ok {
			if digits, ok = bytes.CutPrefix(digits, []byte("compute_")); !ok {
				return 0
			}
		}
		n := 0
		for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
			n++
		}
		v, err := strconv.ParseUint(string(digits[:n]), 10, 16)
		if err != nil {
			return 0
		}
		return uint32(v)
	}
}

// requiredBlocks maps the kernels that have a .reqntid (PTX ISA, 11.4.3) to that block.
func requiredBlocks(ptx []byte) map[string][3]uint32 {
	if !bytes.Contains(ptx, []byte(".reqntid")) {
		return nil
	}
	all := map[string][3]uint32{}
	kernel, last, dimension := "", "", 0
	for {
		var word string
		if word, ptx = nextWord(ptx); word == "" {
			return all
		}
		switch {
		case last == ".entry":
			kernel, _, _ = strings.Cut(word, "(")
		case word == ".reqntid":
			all[kernel], dimension = [3]uint32{1, 1, 1}, 1
		case dimension > 0:
			block := all[kernel]
			n, err := strconv.ParseUint(strings.TrimRight(word, "{}"), 0, 32)
			if err != nil {
				dimension = 0
				break
			}
			block[dimension-1] = uint32(n)
			all[kernel] = block
			dimension = (dimension + 1) % (len(block) + 1)
		}
		last = word
	}
}

// nextWord cuts off the first word that is in no comment, up to a space or a comma.
func nextWord(text []byte) (word string, rest []byte) {
	for {
		text = bytes.TrimLeft(text, " \t\r\n\f\v,")
		switch {
		case bytes.HasPrefix(text, []byte("//")):
			_, text, _ = bytes.Cut(text, []byte("\n"))
			continue
		case bytes.HasPrefix(text, []byte("/*")):
			_, text, _ = bytes.Cut(text[2:], []byte("*/"))
			continue
		}
		end := bytes.IndexAny(text, " \t\r\n\f\v,/")
		switch {
		case end < 0:
			end = len(text)
		case end == 0: // a slash, of the name of a file or of a division
			end = 1
		}
		return string(text[:end]), text[end:]
	}
}

//go:build amd64 && linux

package jit

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
)

// disassembled calls visit with the instructions of code that objdump finds, as text.
func disassembled(t *testing.T, code []byte, visit func(text string)) {
	name := filepath.Join(t.TempDir(), "code")
	require.NoError(t, os.WriteFile(name, code, 0o600))
	out, err := exec.Command("objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "--no-show-raw-insn", name).Output()
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if _, text, ok := strings.Cut(lines.Text(), ":\t"); ok {
			visit(strings.TrimSpace(text))
		}
	}
}

// beyondSSE42 are instructions that x86-64-v2 does not have: all with a VEX or EVEX prefix, whose names begin with v or k, or
// are those of BMI; and what is none.
var beyondSSE42 = regexp.MustCompile(`^([vk]|tzcnt|lzcnt|blsr|bls|andn|bextr|bzhi|rorx|sarx|shlx|shrx|mulx|pdep|pext|movbe|xsave|les|lds)|\(bad\)|[yz]mm`)

// Code for SSE4.2 has no instruction that a processor without AVX does not have: none of any row, for all lanes and for some.
func TestPlainHasNoVEX(t *testing.T) {
	if _, err := exec.LookPath("objdump"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	w := exectest.FuzzWarp()
	var code []ir.Inst
	for _, key := range nativeKeys() {
		code = append(code, rowInst(r, key, w))
	}
	for rows := range slices.Chunk(code, 256) {
		rows = append(slices.Clone(rows), endOfCode)
		for _, masked := range []bool{false, true} {
			noneBeyond(t, rows, w, masked)
		}
	}
	beyond := 0
	disassembled(t, compiledRows(t, append(slices.Clone(code[:16]), endOfCode), w, false, AVX2), func(text string) {
		if beyondSSE42.MatchString(text) {
			beyond++
		}
	})
	require.Positive(t, beyond, "the check finds what AVX2 has")
}

func compiledRows(t *testing.T, rows []ir.Inst, w *ir.Warp, masked bool, isa ISA) []byte {
	fn := &ir.Function{Regs32: len(w.R32), Regs64: len(w.R64), Preds: len(w.Pr), End: int32(len(rows))}
	made := compileFunction(&ir.Program{Code: rows}, fn, make([]uint16, len(rows)), codeKind{masked: masked, isa: isa})
	require.NotNil(t, made)
	return made.code
}

func noneBeyond(t *testing.T, rows []ir.Inst, w *ir.Warp, masked bool) {
	count := 0
	disassembled(t, compiledRows(t, rows, w, masked, Plain), func(text string) {
		count++
		if beyondSSE42.MatchString(text) {
			t.Errorf("masked %t: %s", masked, text)
		}
	})
	require.Greater(t, count, 10*len(rows))
}

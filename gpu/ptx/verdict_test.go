package ptx

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// snippetBody is the kernel around each snippet; testdata/verdicts.py has the same.
const snippetBody = `.version 8.5
.target sm_90a
.address_size 64
%s
.visible .entry kernel(.param .u64 prm, .param .u32 prm32)
{
.reg .pred p, q; .reg .b16 h, h2; .reg .u16 u, u2; .reg .b32 r, r2, r3, r4; .reg .u32 w; .reg .f32 f, f2, f3;
.reg .b128 wide, wide2; .reg .b64 d, d2, d3; .reg .u64 e; .reg .f64 g, g2, g3; .reg .f16 hf, hf2, hf3; .reg .b8 tiny;
.shared .b32 sh[64]; .local .b32 lo[8]; .param .b32 pp[8];
L0:
%s
ret;
}
`

// verdictExceptions are the snippets on which this package and ptxas differ,
// and why.
var verdictExceptions = map[string]string{
	"expr19": "a number of more than 64 bits is an error here; ptxas cuts it",
	"sreg14": "a fourth element of the block coordinates is refused",
	"type76": "the table of lop3 must fit in 8 bits; ptxas cuts it",
	"mem6":   "a 16-bit register is no address",
	"mem17":  "[d-16] means [d+-16]",
	"mem20":  ".target is compared with instructions when a module is loaded",
	"mem58":  "an array element without brackets around it is refused",
	"sync20": ".version and .target are not compared with instructions",
	"sync34": ".version and .target are not compared with instructions",
	"flow16": "%q04 is not %q4",
	"flow29": "an empty statement is allowed",
	"vec5":   "a vector of two elements has no third",
	"decl3":  "variables in .global and .const must be declared outside functions",
	"decl5":  "variables in .global and .const must be declared outside functions",
	"decl57": "the texture mode is not checked",
	"func28": "variable argument lists are refused",
	"sp9":    "PTX leaves a selector above 1 of this shape undefined",
}

// TestVerdicts compares Verify with what ptxas 13.0.88 said about each snippet
// of testdata/verdicts.txt (verdicts.out, November 2026).
func TestVerdicts(t *testing.T) {
	want := map[string]string{}
	for _, line := range lines(t, "testdata/verdicts.out") {
		name, verdict, _ := strings.Cut(line, " ")
		want[name] = verdict
	}
	seen := map[string]bool{}
	for _, line := range lines(t, "testdata/verdicts.txt") {
		part := strings.SplitN(line, "|", 3)
		require.Len(t, part, 3, line)
		name := strings.TrimSpace(part[0])
		require.False(t, seen[name], "%s stands twice", name)
		require.Contains(t, want, name)
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			m, err := Parse("a.ptx", fmt.Appendf(nil, snippetBody, part[1], part[2]))
			if err == nil {
				err = Verify(m)
			}
			agrees := (err == nil) == (want[name] == "ok")
			if why := verdictExceptions[name]; why != "" {
				require.False(t, agrees, "no exception any more: %s", why)
				return
			}
			if want[name] == "ok" {
				require.NoError(t, err, line)
			} else {
				require.Error(t, err, "%s\nptxas: %s", line, want[name])
			}
		})
	}
	for name := range verdictExceptions {
		require.Contains(t, seen, name)
	}
}

// lines returns the lines of a file that are neither empty nor comments.
func lines(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var list []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}

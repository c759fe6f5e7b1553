package bench

import (
	"strconv"
	"strings"
)

// Published figures to stand next to ours, as they are printed in Yusuke Suzuki's
// thesis on GPU virtualization. A question mark stands for what cannot be read
// there.
const (
	sourceRatios     = "Suzuki's thesis, Figure 4.8: execution time relative to native (Quadro 6000, Xen 4.2)"
	sourceHypercalls = "Suzuki's thesis, Table 4.1: hypercalls of a run, naive para-virtualization without and with multicall"
)

// table is a published table: a row for each program.
type table struct {
	source  string
	columns []string
	cells   map[string][]string // by program
}

// parseTable reads rows of words, the first of which is the program.
func parseTable(source string, columns []string, text string) table {
	t := table{source, columns, map[string][]string{}}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			t.cells[words[0]] = words[1:]
		}
	}
	return t
}

// value returns a figure; ok is false where there is none or it cannot be read whole.
func (t table) value(bench, column string) (v float64, ok bool) {
	v, err := strconv.ParseFloat(t.cell(bench, column), 64)
	return v, err == nil
}

// cell returns a figure as printed, "" where there is none.
func (t table) cell(bench, column string) string {
	for i, c := range t.columns {
		if row := t.cells[bench]; c == column && i < len(row) {
			return row[i]
		}
	}
	return ""
}

var publishedRatios = parseTable(sourceRatios,
	[]string{"FV naive", "FV optimised", "PV naive", "PV multicall", "PVDRM", "PVDRM pooling", "PT"}, `
nop    389   52.2  25.7  2.98  1.25  1.05  1.06
loop   321   50.2  30.1  12.5  1.20  1.06  1.05
madd   268   37.95 17.6  2.30  1.25  1.08  1.03
mmul   22.3  3.97  2.34  1.11  1.02  1.01  1.00
fmadd  273   38.4  17.5  2.33  1.25  1.09  1.00
fmmul  263   ?     17.7  2.32  1.25  1.08  1.02
cpy    90    ?     7.54  1.55  1.14  1.01  1.02
pincpy 63.2  7.70  13.9  1.48  2.3   0.97  1.04
bp     ?     32.6  14.8  2.19  1.16  1.02  1.01
hs     ?     ?     20.9  2.83  1.21  1.07  1.05
lud    175   21.?  12.7  1.98  1.11  1.03  1.03
nn     384   51.8  25.?  2.?   1.24  1.06  ?
srad   ?     ?     3.?   1.98  1.03  1.02  1.00
srad2  ?     ?     3.31  1.19  1.03  1.00  1.00
`)

const (
	withoutMulticall = "without multicall"
	withMulticall    = "with multicall"
)

var publishedHypercalls = parseTable(sourceHypercalls, []string{withoutMulticall, withMulticall}, `
nop    11383 118
loop   11383 118
madd   11573 122
mmul   11573 122
fmadd  11573 122
fmmul  11573 122
cpy    12163 105
pincpy 44937 122
bp     11777 137
hs     11429 122
lud    11783 114
nn     11469 118
srad   12379 185
srad2  13031 133
`)

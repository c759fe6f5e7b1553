package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

const (
	sourceModes = "Suzuki's thesis, Figure 4.8; ~: a digit is lost in the scan; -: cannot be read"
	sourceScans = "Suzuki et al., ATC 2014, Table 3: scans of page tables in a run"
)

var publishedModes = parseTable(sourceModes,
	[]string{"fv", "fv-remap", "fv-lazy", "fv-opt", "pv", "pv-multicall", "pvdrm", "pvdrm-pool", "pt"}, `
nop    389.11 146.58  284.33 52.2   25.68 2.98  1.25 1.05 1.06
loop   320.76 ~124.40 230.60 50.2   30.10 12.50 1.20 1.06 1.05
madd   267.76 ~105.44 186.24 37.95  17.60 2.30  1.25 1.08 1.03
mmul   22.26  9.45    16.15  3.97   2.34  1.11  1.02 1.01 1.00
fmadd  272.78 ~107.55 196.59 38.4   17.53 2.33  1.25 1.09 1.00
fmmul  262.63 100.05  190.05 -      17.66 2.32  1.25 1.08 1.02
cpy    90.-   30.17   68.92  -      7.54  1.55  1.14 1.01 1.02
pincpy 63.19  ~19.-   ~47.45 7.70   13.89 1.48  2.3  0.97 1.04
bp     -      ~106    ~16-   ~32.56 14.8  2.19  1.16 1.02 1.01
hs     -      ~126    ~227   -      20.87 2.83  1.21 1.07 1.05
lud    ~175.2 64.48   126.25 ~21    12.7  1.98  1.11 1.03 1.03
nn     ~384   ~149    ~277   51.84  ~25   ~2    1.24 1.06 -
srad   ~30    ~17.0   21.54  -      ~3    1.98  1.03 1.02 1.00
srad2  ~3-    ~16.9   26.41  -      3.31  1.19  1.03 1.00 1.00
`)

var publishedScans = parseTable(sourceScans, []string{"fv", "fv-opt"}, `
nop    30 7
loop   30 7
madd   34 7
mmul   34 7
fmadd  34 7
fmmul  34 7
cpy    26 6
pincpy 28 6
bp     40 7
bfs    42 7
hs     34 7
lud    30 7
nn     -  -
srad   52 7
srad2  40 7
`)

// WriteModesJSON writes rows, one object a line.
func WriteModesJSON(w io.Writer, rows []ModeRow) error {
	e := json.NewEncoder(w)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// WriteModes writes a table: a line for each program and mode, and how much shorter programs take
// than with full virtualization.
func WriteModes(w io.Writer, traps string, rows []ModeRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "program\tmode\tms\t/ native\t/ own\tpublished\tBAR0\tBAR1\tBAR3\tscans\tpublished\tof BARs\thypercalls\toperations\tactivations\tverified\t")
	for _, r := range rows {
		if r.Phase != "total" {
			continue
		}
		verified := "yes"
		if !r.Verified {
			verified = "NO"
		}
		own := ""
		if r.RatioOwn > 0 {
			own = fmt.Sprintf("%.2f", r.RatioOwn)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%s\t\n", r.Bench, r.Mode, 1e3*r.Seconds, r.Ratio, own,
			publishedModes.cell(r.Bench, r.Mode), r.TrapsBAR0, r.TrapsBAR1, r.TrapsBAR3, r.Scans, publishedScans.cell(r.Bench, r.Mode),
			r.BARScans, r.Hypercalls, r.MulticallOps, r.Activations, verified)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, x := range []struct {
		mode string
		text string
	}{{"fv-remap", "2.5"}, {"fv-lazy", "1.4"}, {"fv-opt", "4.9"}} {
		if times := shorter(rows, x.mode); len(times) > 0 {
			fmt.Fprintf(w, "%s against fv: %.2f times shorter, the geometric mean of %d programs; %s times in the thesis\n", x.mode, geomean(times), len(times), x.text)
		}
	}
	fmt.Fprintf(w, "Traps: %s; of side-core such for which both poll. In the thesis they are an exit of the VM and a message.\nPublished: %s. %s.\n", trapNotes[traps], sourceModes, sourceScans)
	return nil
}

// shorter is, for each program, how many times shorter it takes in a mode than with fv.
func shorter(rows []ModeRow, mode string) (times []float64) {
	naive := map[string]float64{}
	for _, r := range rows {
		if r.Phase == "total" && r.Mode == "fv" {
			naive[r.Bench] = r.Seconds
		}
	}
	for _, r := range rows {
		if v := naive[r.Bench]; r.Phase == "total" && r.Mode == mode && v > 0 && r.Seconds > 0 {
			times = append(times, v/r.Seconds)
		}
	}
	return times
}

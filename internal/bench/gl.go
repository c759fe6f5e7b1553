package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// GLPlace says where scenes are drawn.
type GLPlace string

// Places, in the order of a report.
const (
	GLSoftware GLPlace = "guest-llvmpipe" // on the processors of a machine of PVDRM's
	GLVirgl    GLPlace = "pvdrm-virgl"    // in that machine, by PVDRM
	GLQEMU     GLPlace = "qemu-virgl"     // in another one, by QEMU's own virtio-gpu-gl
	GLHost     GLPlace = "host"           // without a machine
	// Two such machines that draw at once; a frame is the mean of both.
	GLVirglPair GLPlace = "pvdrm-virgl-x2"
	GLQEMUPair  GLPlace = "qemu-virgl-x2"
)

// GLPlaces lists all places.
var GLPlaces = []GLPlace{GLSoftware, GLVirgl, GLQEMU, GLHost, GLVirglPair, GLQEMUPair}

// GLSample is one scene that was drawn once.
type GLSample struct {
	Scene        string
	Place        GLPlace
	Round        int
	Renderer     string
	Milliseconds float64 // a frame
}

// GLRow is all that was measured of a scene.
type GLRow struct {
	Scene string             `json:"scene"`
	Cells map[GLPlace]GLCell `json:"places"`
	// SpeedUp is how many times faster PVDRM is than llvmpipe in the guest, OfQEMU and
	// OfHost the time of a frame relative to theirs, and PairOfQEMU that of two machines
	// at once: medians of the ratios within a round, 0 where one was not measured.
	SpeedUp    float64 `json:"speed_up_over_guest_llvmpipe,omitempty"`
	OfQEMU     float64 `json:"time_relative_to_qemu,omitempty"`
	OfHost     float64 `json:"time_relative_to_host,omitempty"`
	PairOfQEMU float64 `json:"time_of_two_relative_to_two_of_qemu,omitempty"`
}

// GLCell is a scene in a place. Times are milliseconds for a frame.
type GLCell struct {
	Renderer string  `json:"renderer"`
	Median   float64 `json:"ms_per_frame"`
	P10      float64 `json:"p10"`
	P90      float64 `json:"p90"`
	Runs     int     `json:"runs"`
}

// GLReport is what `pvdrm bench gl` has measured.
type GLReport struct {
	Header Header             `json:"header"`
	Rows   []GLRow            `json:"rows"`
	Absent map[GLPlace]string `json:"not_measured,omitempty"` // why
}

// GLRows puts samples in order. Scenes come in the order in which they were first drawn.
func GLRows(samples []GLSample) (rows []GLRow) {
	type key struct {
		scene string
		place GLPlace
	}
	times, renderers := map[key]map[int]float64{}, map[key]string{} // by round
	for _, s := range samples {
		k := key{s.Scene, s.Place}
		if times[k] == nil {
			times[k] = map[int]float64{}
		}
		times[k][s.Round], renderers[k] = s.Milliseconds, s.Renderer
		if !slices.ContainsFunc(rows, func(r GLRow) bool { return r.Scene == s.Scene }) {
			rows = append(rows, GLRow{Scene: s.Scene, Cells: map[GLPlace]GLCell{}})
		}
	}
	// ratio is the median of the ratios within a round.
	ratio := func(scene string, a, b GLPlace) float64 {
		var within []float64
		for round, t := range times[key{scene, a}] {
			if other := times[key{scene, b}][round]; other > 0 {
				within = append(within, t/other)
			}
		}
		return spread(within).Median
	}
	for i := range rows {
		r := &rows[i]
		for _, p := range GLPlaces {
			if t := slices.Collect(maps.Values(times[key{r.Scene, p}])); len(t) > 0 {
				s := spread(t)
				r.Cells[p] = GLCell{renderers[key{r.Scene, p}], s.Median, s.P10, s.P90, len(t)}
			}
		}
		r.SpeedUp, r.OfQEMU, r.OfHost = ratio(r.Scene, GLSoftware, GLVirgl), ratio(r.Scene, GLVirgl, GLQEMU), ratio(r.Scene, GLVirgl, GLHost)
		r.PairOfQEMU = ratio(r.Scene, GLVirglPair, GLQEMUPair)
	}
	return rows
}

// What PVDRM means to reach, as geometric means over the scenes.
const (
	glSpeedUpGoal = 8.0  // over llvmpipe in the guest
	glQEMUGoal    = 1.10 // of the time that QEMU's own device takes
	glPairGoal    = 1.00 // of that time, with two machines at once
)

// Targets compares what was measured with what is wanted.
func (r GLReport) Targets() (t []Target) {
	m := r.means()
	if m.SpeedUp != 0 {
		t = append(t, Target{Figure: "frames against llvmpipe in the guest", Goal: fmt.Sprintf("at least %.0fx faster", glSpeedUpGoal),
			Found: fmt.Sprintf("%.1fx", m.SpeedUp), Met: m.SpeedUp >= glSpeedUpGoal})
	}
	atMost := func(figure string, found, goal float64) {
		if found != 0 {
			t = append(t, Target{Figure: figure, Goal: fmt.Sprintf("at most %.2f of it", goal), Found: fmt.Sprintf("%.2f", found), Met: found <= goal})
		}
	}
	atMost("time of a frame against QEMU's virtio-gpu-gl", m.OfQEMU, glQEMUGoal)
	atMost("the same, two machines at once", m.PairOfQEMU, glPairGoal)
	return t
}

// means has the geometric means of the ratios, 0 where there are none.
func (r GLReport) means() GLRow {
	var lists [4][]float64
	for _, row := range r.Rows {
		for i, v := range row.ratios() {
			if v != 0 {
				lists[i] = append(lists[i], v)
			}
		}
	}
	return GLRow{SpeedUp: geomean(lists[0]), OfQEMU: geomean(lists[1]), OfHost: geomean(lists[2]), PairOfQEMU: geomean(lists[3])}
}

func (r GLRow) ratios() [4]float64 {
	return [4]float64{r.SpeedUp, r.OfQEMU, r.OfHost, r.PairOfQEMU}
}

// table is the report's table, its head first.
func (r GLReport) table() [][]string {
	head := []string{"ms/frame"}
	for _, p := range GLPlaces {
		head = append(head, string(p))
	}
	rows := [][]string{append(head, "pvdrm faster than llvmpipe", "time of qemu's", "time of host's", "x2: time of qemu's")}
	cell := func(v float64, format string) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	ratios := func(cells []string, row GLRow) []string {
		for i, v := range row.ratios() {
			cells = append(cells, cell(v, []string{"%.1fx", "%.2f", "%.2f", "%.2f"}[i]))
		}
		return cells
	}
	mean := []string{"geometric mean"}
	for range GLPlaces {
		mean = append(mean, "")
	}
	for _, row := range r.Rows {
		cells := []string{row.Scene}
		for _, p := range GLPlaces {
			cells = append(cells, cell(row.Cells[p].Median, "%.2f"))
		}
		rows = append(rows, ratios(cells, row))
	}
	return append(rows, ratios(mean, r.means()))
}

// facts are what drew, or why nothing did, then those of the header.
func (r GLReport) facts() (facts []Fact) {
	for _, p := range GLPlaces {
		switch name := r.renderer(p); {
		case r.Absent[p] != "":
			facts = append(facts, Fact{string(p), "not measured: " + r.Absent[p]})
		case name != "":
			facts = append(facts, Fact{string(p), name})
		}
	}
	return append(facts, r.Header.Facts...)
}

// WriteText writes a table for a person.
func (r GLReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range r.table() {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, g := range r.Targets() {
		state := "missed"
		if g.Met {
			state = "met"
		}
		if _, err := fmt.Fprintf(w, "%s: %s: %s (%s)\n", state, g.Figure, g.Found, g.Goal); err != nil {
			return err
		}
	}
	for _, f := range r.facts() {
		if _, err := fmt.Fprintf(w, "%s: %s\n", f.Name, f.Value); err != nil {
			return err
		}
	}
	return nil
}

// WriteHTML writes the report as a page that needs nothing else.
func (r GLReport) WriteHTML(w io.Writer) error {
	type tableData struct {
		Title, Note string
		Head        []string
		Rows        [][]string
	}
	table := r.table()
	header := r.Header
	header.Facts = r.facts()
	return pageTemplate.Execute(w, struct {
		Header   Header
		Date     string
		Targets  []Target
		Failures []string
		Figures  []struct{ Title, Caption, SVG string }
		Tables   []tableData
	}{Header: header, Date: header.Date.Format("2006-01-02 15:04 MST"), Targets: r.Targets(), Tables: []tableData{{
		Title: "OpenGL", Head: table[0], Rows: table[1:],
		Note: "Medians of the time of a frame in milliseconds; each frame has ended before the next begins.",
	}}})
}

// renderer is what drew in a place.
func (r GLReport) renderer(p GLPlace) string {
	for _, row := range r.Rows {
		if c, ok := row.Cells[p]; ok {
			return c.Renderer
		}
	}
	return ""
}

// WriteJSON writes the report as one JSON object.
func (r GLReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

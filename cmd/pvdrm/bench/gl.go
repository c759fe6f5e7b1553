package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
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
)

// GLPlaces lists all places.
var GLPlaces = []GLPlace{GLSoftware, GLVirgl, GLQEMU, GLHost}

// GLSample is one scene that was drawn once.
type GLSample struct {
	Scene        string
	Place        GLPlace
	Renderer     string
	Milliseconds float64 // a frame
}

// GLRow is all that was measured of a scene.
type GLRow struct {
	Scene string             `json:"scene"`
	Cells map[GLPlace]GLCell `json:"places"`
	// SpeedUp is how many times faster PVDRM is than llvmpipe in the guest, OfQEMU and
	// OfHost the time of a frame relative to theirs; 0 where one was not measured.
	SpeedUp float64 `json:"speed_up_over_guest_llvmpipe,omitempty"`
	OfQEMU  float64 `json:"time_relative_to_qemu,omitempty"`
	OfHost  float64 `json:"time_relative_to_host,omitempty"`
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
	times, renderers := map[key][]float64{}, map[key]string{}
	for _, s := range samples {
		k := key{s.Scene, s.Place}
		times[k], renderers[k] = append(times[k], s.Milliseconds), s.Renderer
		if !slices.ContainsFunc(rows, func(r GLRow) bool { return r.Scene == s.Scene }) {
			rows = append(rows, GLRow{Scene: s.Scene, Cells: map[GLPlace]GLCell{}})
		}
	}
	ratio := func(a, b GLCell) float64 {
		if a.Median == 0 || b.Median == 0 {
			return 0
		}
		return a.Median / b.Median
	}
	for i := range rows {
		r := &rows[i]
		for _, p := range GLPlaces {
			if t := times[key{r.Scene, p}]; len(t) > 0 {
				s := spread(t)
				r.Cells[p] = GLCell{renderers[key{r.Scene, p}], s.Median, s.P10, s.P90, len(t)}
			}
		}
		ours := r.Cells[GLVirgl]
		r.SpeedUp, r.OfQEMU, r.OfHost = ratio(r.Cells[GLSoftware], ours), ratio(ours, r.Cells[GLQEMU]), ratio(ours, r.Cells[GLHost])
	}
	return rows
}

// WriteText writes a table for a person.
func (r GLReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "ms/frame\t")
	for _, p := range GLPlaces {
		fmt.Fprintf(t, "%s\t", p)
	}
	fmt.Fprintln(t, "pvdrm faster than llvmpipe\ttime of qemu's\ttime of host's\t")
	cell := func(v float64, format string) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	var ups, qemus, hosts []float64
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t", row.Scene)
		for _, p := range GLPlaces {
			fmt.Fprintf(t, "%s\t", cell(row.Cells[p].Median, "%.2f"))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t\n", cell(row.SpeedUp, "%.1fx"), cell(row.OfQEMU, "%.2f"), cell(row.OfHost, "%.2f"))
		for _, x := range []struct {
			v    float64
			list *[]float64
		}{{row.SpeedUp, &ups}, {row.OfQEMU, &qemus}, {row.OfHost, &hosts}} {
			if x.v != 0 {
				*x.list = append(*x.list, x.v)
			}
		}
	}
	fmt.Fprintf(t, "geometric mean\t%s%s\t%s\t%s\t\n", "\t\t\t\t", cell(geomean(ups), "%.1fx"), cell(geomean(qemus), "%.2f"), cell(geomean(hosts), "%.2f"))
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range GLPlaces {
		line := r.Absent[p]
		if line != "" {
			line = "not measured: " + line
		} else if name := r.renderer(p); name != "" {
			line = name
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", p, line); err != nil {
			return err
		}
	}
	for _, f := range r.Header.Facts {
		if _, err := fmt.Fprintf(w, "%s: %s\n", f.Name, f.Value); err != nil {
			return err
		}
	}
	return nil
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

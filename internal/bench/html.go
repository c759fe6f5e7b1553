package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

// WriteHTML writes the report as a page that needs nothing else.
func (r Report) WriteHTML(w io.Writer) error {
	type tableData struct {
		Title, Note string
		Head        []string
		Rows        [][]string
	}
	type figureData struct {
		Title, Caption string
		SVG            template.HTML
	}
	data := struct {
		Header   Header
		Date     string
		Targets  []Target
		Failures []string
		Tables   []tableData
		Figures  []figureData
	}{Header: r.Header, Date: r.Header.Date.Format("2006-01-02 15:04 MST"), Targets: r.Targets(), Failures: r.Failures()}
	for _, f := range r.figures() {
		// The chart escapes all text that is in it.
		data.Figures = append(data.Figures, figureData{f.Title, f.Caption, template.HTML(f.svg())})
	}
	for _, s := range r.series() {
		t := tableData{Title: s.String(), Head: r.head(s), Note: notes[s.Mode] + "; of phases with p10-p90"}
		for _, b := range r.benches() {
			if r.row(b, s, Total) != nil {
				t.Rows = append(t.Rows, r.textCells(b, s, true))
			}
		}
		data.Tables = append(data.Tables, t)
	}
	if len(r.Micros) > 0 {
		t := tableData{Title: "Micro-benchmarks", Head: microHead, Note: "Medians of one call."}
		for _, m := range r.Micros {
			t.Rows = append(t.Rows, microCells(m))
		}
		data.Tables = append(data.Tables, t)
	}
	if len(r.Clang) > 0 {
		t := tableData{Title: "Against clang", Head: clangHead, Note: clangNote}
		for _, x := range r.clangRows() {
			t.Rows = append(t.Rows, x.cells())
		}
		data.Tables = append(data.Tables, t)
	}
	if head, rows := r.scaleTable(); len(rows) > 0 {
		data.Tables = append(data.Tables, tableData{Title: "By processors", Head: head, Note: scaleNote, Rows: rows})
	}
	if r.has(Series{Local, Full}) || r.has(Series{VM, Full}) {
		for _, p := range []table{publishedRatios, publishedHypercalls} {
			t := tableData{Title: "Published", Head: append([]string{""}, p.columns...), Note: p.source}
			ours := doorbells
			if p.source == sourceRatios {
				ours = toNative
			}
			for _, m := range []Mode{Local, VM} {
				if r.has(Series{m, Full}) {
					t.Head = append(t.Head, "here: "+string(m))
				}
			}
			for _, b := range r.benches() {
				row := []string{b}
				for _, c := range p.columns {
					row = append(row, p.cell(b, c))
				}
				for _, m := range []Mode{Local, VM} {
					if x := r.row(b, Series{m, Full}, Total); x != nil {
						row = append(row, "-")
						if v, ok := ours(x); ok {
							row[len(row)-1] = fmt.Sprintf("%.4g", v)
						}
					}
				}
				t.Rows = append(t.Rows, row)
			}
			data.Tables = append(data.Tables, t)
		}
	}
	return pageTemplate.Execute(w, data)
}

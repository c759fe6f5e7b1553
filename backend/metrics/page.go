// Package metrics tells Prometheus what backends and arbiters have counted, in
// its text format, version 0.0.4.
//
// Nothing is counted here: a Collector reads the counters where they are, each
// time somebody asks, and writes them to a Page. families lists all metrics; a
// Page refuses others, so that the list in docs/scheduling.md is complete.
//
// Goroutines: those of net/http, for which Serve sets limits, and one that ends
// the server with its context. There are no locks.
package metrics

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"pvdrm/backend/arbiter"
)

// Page is one answer: samples, by family. The zero value is ready.
type Page struct {
	samples map[string][]string
}

// add adds a sample. labels are names and values in turn.
func (p *Page) add(name string, value float64, labels ...string) {
	known(name)
	p.line(name, name, strconv.FormatFloat(value, 'g', -1, 64), labels)
}

// known panics for a metric that is not listed: a mistake in a collector.
func known(name string) {
	for _, f := range families {
		if f.Name == name {
			return
		}
	}
	panic("metrics: " + name + " is not in the list of families")
}

func (p *Page) line(family, name, value string, labels []string) {
	if p.samples == nil {
		p.samples = map[string][]string{}
	}
	var b strings.Builder
	b.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(labels[i] + `="` + escape.Replace(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		b.WriteByte('}')
	}
	b.WriteString(" " + value + "\n")
	p.samples[family] = append(p.samples[family], b.String())
}

// escape makes a text fit between the quotes of a label's value.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// histogram adds the samples of a histogram, with the sum of all its times.
func (p *Page) histogram(name string, h *arbiter.Histogram, sum time.Duration, labels ...string) {
	known(name)
	count := uint64(0)
	for i, n := range h {
		count += n
		le := "+Inf"
		if i < len(h)-1 {
			le = strconv.FormatFloat(h.Bound(i).Seconds(), 'g', -1, 64)
		}
		p.line(name, name+"_bucket", strconv.FormatUint(count, 10), append(labels[:len(labels):len(labels)], "le", le))
	}
	p.line(name, name+"_sum", strconv.FormatFloat(sum.Seconds(), 'g', -1, 64), labels)
	p.line(name, name+"_count", strconv.FormatUint(count, 10), labels)
}

// WriteTo writes the page.
func (p *Page) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	for _, f := range families {
		if lines := p.samples[f.Name]; len(lines) > 0 {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s", f.Name, f.Help, f.Name, f.Type, strings.Join(lines, ""))
		}
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// Package metrics serves what backends and arbiters have counted, for Prometheus.
//
// Nothing is counted here: a Page is filled from the counters where they are, each time
// somebody asks, and goes through a registry of client_golang, which checks names, labels
// and duplicates and writes the exposition format that the scraper asks for. families
// lists all metrics; a Page refuses others, so that the list in the docs is complete.
//
// Goroutines: those of net/http, for which Serve sets limits, and one that ends
// the server with its context. There are no locks.
package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pvdrm/gpu"
)

// Page is one answer: samples of families. The zero value is ready. It is a
// prometheus.Collector, to be registered once.
type Page struct {
	samples []prometheus.Metric
}

// Describe is part of prometheus.Collector. A Page announces nothing: which families
// it has is known when it is filled.
func (p *Page) Describe(chan<- *prometheus.Desc) {}

// Collect is part of prometheus.Collector.
func (p *Page) Collect(to chan<- prometheus.Metric) {
	for _, s := range p.samples {
		to <- s
	}
}

// add adds a sample. values are those of the family's labels.
func (p *Page) add(name string, value float64, values ...string) {
	f := find(name)
	kind := prometheus.GaugeValue
	if f.Type == counter {
		kind = prometheus.CounterValue
	}
	p.samples = append(p.samples, prometheus.MustNewConstMetric(f.desc, kind, value, valid(values)...))
}

// histogram adds a histogram with the sum of all its times.
func (p *Page) histogram(name string, h *gpu.Histogram, sum time.Duration, values ...string) {
	below := map[float64]uint64{}
	count := uint64(0)
	for i, n := range h {
		count += n
		if i < len(h)-1 { // the last has no bound
			below[h.Bound(i).Seconds()] = count
		}
	}
	p.samples = append(p.samples, prometheus.MustNewConstHistogram(find(name).desc, count, sum.Seconds(), below, valid(values)...))
}

// valid makes names of guests, which may be any bytes, fit for labels.
func valid(values []string) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return all
}

// find returns a family. It panics for a metric that is not listed: a mistake here.
func find(name string) *described {
	f := byName[name]
	if f == nil {
		panic("metrics: " + name + " is not in the list of families")
	}
	return f
}

// described is a family with what the registry knows it by.
type described struct {
	Family
	desc *prometheus.Desc
}

// byName has all families.
var byName = func() map[string]*described {
	all := map[string]*described{}
	for _, f := range families {
		all[f.Name] = &described{Family: f, desc: prometheus.NewDesc(f.Name, f.Help, strings.Split(f.Labels, ", "), nil)}
	}
	return all
}()

package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// chart is a bar chart: groups of bars beside each other, each a stack of parts.
type chart struct {
	unit   string // of the axis
	log    bool   // logarithmic axis; stacks have one part then
	line   float64
	top    float64 // end of a linear axis; bars that are longer are cut and labeled. 0: the longest bar
	groups []group
	legend []swatch
}

type group struct {
	name string
	bars []bar
}

// bar is a stack; parts come from the bottom. One without parts stands for what
// is not known. Title is shown when pointed at.
type bar struct {
	title string
	parts []part
}

type part struct {
	color string
	value float64
}

type swatch struct{ name, color string }

func (b bar) sum() (sum float64) {
	for _, p := range b.parts {
		sum += p.value
	}
	return sum
}

// Sizes in pixels.
const (
	chartHeight = 260
	chartLeft   = 52
	chartTop    = 28
	chartBottom = 40
	barWidth    = 9
	groupGap    = 14
	legendRow   = 18
	letter      = 7 // about the width of a letter
)

// palette are colors that are told apart with impaired color vision too (Okabe, Ito).
var palette = [...]string{"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#999999", "#f0e442"}

// svg draws the chart. The text is colored by the page that it is in.
func (c chart) svg() string {
	var b strings.Builder
	width, most := chartLeft, 0.0
	low := math.Inf(1)
	for _, g := range c.groups {
		width += len(g.bars)*barWidth + groupGap
		for _, x := range g.bars {
			most = max(most, x.sum())
			if v := x.sum(); v > 0 {
				low = min(low, v)
			}
		}
	}
	a := c.axis(low, most)
	swatchWidth := 0
	for _, s := range c.legend {
		swatchWidth = max(swatchWidth, 30+letter*len(s.name))
	}
	perRow := max((width-chartLeft)/max(swatchWidth, 1), 1)
	rows := (len(c.legend) + perRow - 1) / perRow
	width = max(width, chartLeft+min(len(c.legend), perRow)*swatchWidth)
	height := chartTop + chartHeight + chartBottom + rows*legendRow
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", width, height, width, height)
	for _, v := range a.ticks {
		y := a.y(v)
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="tick" x="%d" y="%.1f">%s</text>`+"\n",
			chartLeft, width, y, y, chartLeft-6, y+4, tick(v))
	}
	if c.line != 0 {
		y := a.y(c.line)
		fmt.Fprintf(&b, `<line class="mark" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", chartLeft, width, y, y)
	}
	fmt.Fprintf(&b, `<text class="unit" x="4" y="11">%s</text>`+"\n", html.EscapeString(c.unit))
	x := chartLeft + groupGap/2
	for _, g := range c.groups {
		start := x
		for _, v := range g.bars {
			c.drawBar(&b, a, x, v)
			x += barWidth
		}
		mid := (start + x) / 2
		fmt.Fprintf(&b, `<text class="name" transform="translate(%d %d) rotate(-35)">%s</text>`+"\n",
			mid+4, chartTop+chartHeight+14, html.EscapeString(g.name))
		x += groupGap
	}
	for i, s := range c.legend {
		x, y := chartLeft+i%perRow*swatchWidth, chartTop+chartHeight+chartBottom+i/perRow*legendRow
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="11" height="11" fill="%s"/><text class="key" x="%d" y="%d">%s</text>`+"\n",
			x, y, s.color, x+16, y+10, html.EscapeString(s.name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (c chart) drawBar(b *strings.Builder, a axis, x int, v bar) {
	fmt.Fprintf(b, `<g><title>%s</title>`, html.EscapeString(v.title))
	at, cut := 0.0, false
	for _, p := range v.parts {
		from, to := at, at+p.value
		at = to
		if from >= a.high || p.value <= 0 {
			cut = cut || to > a.high
			continue
		}
		cut = cut || to > a.high
		top, bottom := a.y(min(to, a.high)), a.y(from)
		fmt.Fprintf(b, `<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/>`, x, top, barWidth-1, bottom-top, p.color)
	}
	switch {
	case cut:
		fmt.Fprintf(b, `<text class="cut" transform="translate(%d %d) rotate(-90)">%s</text>`, x+barWidth-2, chartTop+36, tick(at))
	case len(v.parts) == 0:
		fmt.Fprintf(b, `<text class="none" x="%d" y="%d">?</text>`, x, chartTop+chartHeight-2)
	case at == 0:
		fmt.Fprintf(b, `<text class="none" x="%d" y="%d">0</text>`, x, chartTop+chartHeight-2)
	}
	b.WriteString("</g>\n")
}

// axis maps values to places.
type axis struct {
	log       bool
	low, high float64
	ticks     []float64
}

// axis chooses the axis for values from low to high.
func (c chart) axis(low, high float64) axis {
	if c.line != 0 {
		low, high = min(low, c.line), max(high, c.line)
	}
	if c.log {
		first, last := -1.0, 1.0
		if high > 0 {
			// A decade more at the bottom, so that the shortest bar has a length.
			first, last = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
			if math.Log10(low) == first {
				first--
			}
			last = max(last, first+1)
		}
		a := axis{log: true, low: math.Pow(10, first), high: math.Pow(10, last)}
		for e := first; e <= last; e++ {
			a.ticks = append(a.ticks, math.Pow(10, e))
		}
		return a
	}
	a := axis{high: high}
	if c.top > 0 {
		a.high = min(high, c.top)
	}
	if a.high <= 0 {
		a.high = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(a.high)))
	if a.high/step < 2 {
		step /= 5
	} else if a.high/step < 5 {
		step /= 2
	}
	a.high = step * math.Ceil(a.high/step-1e-9)
	for v := 0.0; v <= a.high+step/2; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}

// y is where a value is, in pixels from the top.
func (a axis) y(v float64) float64 {
	part := v / a.high
	if a.log {
		part = 0
		if v > a.low {
			part = math.Log10(v/a.low) / math.Log10(a.high/a.low)
		}
	}
	return chartTop + chartHeight*(1-part)
}

// tick writes a value of the axis.
func tick(v float64) string {
	if v >= 1e4 {
		return fmt.Sprintf("%.4gk", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}

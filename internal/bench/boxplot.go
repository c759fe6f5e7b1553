package bench

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// box is a box of a box plot: five quantiles.
type box struct {
	name  string
	marks [5]float64 // 0, 1/4, 1/2, 3/4, 1
}

// newBox makes a box of some values.
func newBox(name string, values []float64) box {
	b := box{name: name}
	sorted := slices.Sorted(slices.Values(values))
	for i := range b.marks {
		b.marks[i] = quantile(sorted, float64(i)/4)
	}
	return b
}

// Sizes of a box plot in pixels.
const (
	boxWidth = 44
	boxGap   = 40
)

// boxPlot draws boxes side by side, on an axis from 0.
func boxPlot(unit string, boxes []box) string {
	most := 0.0
	for _, x := range boxes {
		most = max(most, x.marks[4])
	}
	a := chart{}.axis(0, most)
	width := chartLeft + len(boxes)*(boxWidth+boxGap) + boxGap
	height := chartTop + chartHeight + chartBottom + legendRow
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", width, height, width, height)
	for _, v := range a.ticks {
		y := a.y(v)
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="tick" x="%d" y="%.1f">%s</text>`+"\n",
			chartLeft, width, y, y, chartLeft-6, y+4, tick(v))
	}
	fmt.Fprintf(&b, `<text class="unit" x="4" y="11">%s</text>`+"\n", html.EscapeString(unit))
	for i, x := range boxes {
		left, color := chartLeft+boxGap+i*(boxWidth+boxGap), palette[i%len(palette)]
		mid := left + boxWidth/2
		fmt.Fprintf(&b, `<g stroke="%s"><title>%s: %.4g to %.4g, median %.4g %s</title>`, color, html.EscapeString(x.name), x.marks[0], x.marks[4], x.marks[2], html.EscapeString(unit))
		for _, w := range [][2]float64{{x.marks[0], x.marks[1]}, {x.marks[3], x.marks[4]}} {
			fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, mid, mid, a.y(w[0]), a.y(w[1]))
		}
		for _, m := range []float64{x.marks[0], x.marks[4]} {
			fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left+boxWidth/4, left+3*boxWidth/4, a.y(m), a.y(m))
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s" fill-opacity=".35"/>`, left, a.y(x.marks[3]), boxWidth, a.y(x.marks[1])-a.y(x.marks[3]), color)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke-width="2"/></g>`, left, left+boxWidth, a.y(x.marks[2]), a.y(x.marks[2]))
		fmt.Fprintf(&b, `<text class="name" transform="translate(%d %d) rotate(-35)">%s</text>`+"\n", mid+4, chartTop+chartHeight+14, html.EscapeString(x.name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

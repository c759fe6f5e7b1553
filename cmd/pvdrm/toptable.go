package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pvdrm/backend/arbiter"
	"pvdrm/gem/quota"
)

// topSample is what all backends had counted at a time.
type topSample struct {
	at       time.Time
	backends []backendStats
}

// topRow is what a guest did between two samples. Times are parts of the time
// that went by, 0 to 1.
type topRow struct {
	Guest    string  `json:"guest"`
	PID      int     `json:"pid"`
	Weight   uint32  `json:"weight"`   // 0 without an arbiter
	Expected float64 `json:"expected"` // share of the compute engine it is entitled to now; 0 without an arbiter or while idle
	Share    float64 `json:"share"`    // of the compute engine, used by kernels and by rendering
	Render   float64 `json:"render"`   // the part of it that is rendering (OpenGL)
	Copy     float64 `json:"copy"`     // of the copy engine, used
	Waiting  float64 `json:"waiting"`  // time its commands waited for the arbiter
	Launches float64 `json:"launches_per_s"`
	Preempts float64 `json:"preemptions_per_s"` // commands stopped to go on later
	Denials  float64 `json:"denials_per_s"`     // times that dfq left the guest out
	Revokes  float64 `json:"revocations_per_s"` // contexts killed for others, and run again
	Queued   uint64  `json:"queued"`            // work now, as its quota counts it
	VRAM     uint64  `json:"vram_bytes"`
}

// topRows compares two samples. A backend that was not in the first is left out:
// nothing can be said of it yet.
func topRows(before, after topSample) []topRow {
	elapsed := after.at.Sub(before.at).Seconds()
	rows := []topRow{}
	if elapsed <= 0 {
		return rows
	}
	for _, b := range after.backends {
		i := slices.IndexFunc(before.backends, func(a backendStats) bool { return a.PID == b.PID })
		if i < 0 {
			continue
		}
		a := before.backends[i]
		r := topRow{Guest: b.Name, PID: b.PID, VRAM: b.Device.VRAM(),
			Share:    (b.Device.ComputeBusy - a.Device.ComputeBusy).Seconds() / elapsed,
			Copy:     (b.Device.CopyBusy - a.Device.CopyBusy).Seconds() / elapsed,
			Launches: float64(b.Device.Launches-a.Device.Launches) / elapsed,
			Preempts: float64(b.Device.Preemptions-a.Device.Preemptions) / elapsed,
			Revokes:  float64(b.Device.Replays-a.Device.Replays) / elapsed,
		}
		if a.GL != nil && b.GL != nil {
			r.Render = (b.GL.Busy - a.GL.Busy).Seconds() / elapsed
			r.Share += r.Render
		}
		for _, q := range b.Guest.Quotas {
			if q.Resource == quota.Queued.String() {
				r.Queued = q.Used
			}
		}
		if a.Gate != nil && b.Gate != nil {
			for e := range b.Gate.Waited {
				r.Waiting += (b.Gate.Waited[e] - a.Gate.Waited[e]).Seconds() / elapsed
			}
		}
		if b.Share != nil {
			r.Weight = max(b.Share.Share.Weight, 1)
			r.Expected = b.Share.Engines[arbiter.Compute].Fraction
			if was := a.Share; was != nil && b.Share.Engines[arbiter.Compute].Denied >= was.Engines[arbiter.Compute].Denied { // else it has joined again
				r.Denials = float64(b.Share.Engines[arbiter.Compute].Denied-was.Engines[arbiter.Compute].Denied) / elapsed
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// topOrders are what rows can be sorted by, each with its key.
var topOrders = []struct {
	key     byte
	name    string
	compare func(a, b topRow) int
}{
	{key: 's', name: "share", compare: func(a, b topRow) int { return cmp.Compare(b.Share, a.Share) }},
	{key: 'g', name: "guest", compare: func(topRow, topRow) int { return 0 }},
	{key: 'w', name: "waiting", compare: func(a, b topRow) int { return cmp.Compare(b.Waiting, a.Waiting) }},
	{key: 'l', name: "launches", compare: func(a, b topRow) int { return cmp.Compare(b.Launches, a.Launches) }},
	{key: 'v', name: "vram", compare: func(a, b topRow) int { return cmp.Compare(b.VRAM, a.VRAM) }},
}

// topOrder finds an order by its key or name; -1.
func topOrder(what string) int {
	for i, o := range topOrders {
		if what == o.name || what == string(o.key) {
			return i
		}
	}
	return -1
}

// sortRows sorts by an order, and equal ones by name.
func sortRows(rows []topRow, order int) {
	slices.SortFunc(rows, func(a, b topRow) int {
		return cmp.Or(topOrders[order].compare(a, b), strings.Compare(a.Guest, b.Guest), cmp.Compare(a.PID, b.PID))
	})
}

// Widths of the table, columns.
const (
	topNumbers = 100 // all but the bar
	topName    = 12
	topBarMost = 60
)

// topTable draws rows as lines, the first a head. No line has more than width
// columns; the bar takes what is left of it, and has a mark at the expected share.
func topTable(rows []topRow, width int) []string {
	bar := min(width-topNumbers-1, topBarMost)
	lines := []string{fmt.Sprintf("%-*s %6s %6s %6s %6s %6s %6s %8s %7s %6s %8s %5s %6s", topName, "GUEST", "WEIGHT", "SHARE", "EXPECT", "RENDER", "COPY", "WAIT", "LAUNCH/S", "STOPS/S", "DENY/S", "REVOKE/S", "QUEUE", "MIB")}
	for _, r := range rows {
		weight, expected := "-", "-"
		if r.Weight > 0 {
			weight, expected = fmt.Sprint(r.Weight), fmt.Sprintf("%.1f%%", r.Expected*percent)
		}
		line := fmt.Sprintf("%-*.*s %6s %5.1f%% %6s %5.1f%% %5.1f%% %5.1f%% %8.1f %7.1f %6.1f %8.1f %5d %6d", topName, topName, r.Guest, weight,
			r.Share*percent, expected, r.Render*percent, r.Copy*percent, r.Waiting*percent, r.Launches, r.Preempts, r.Denials, r.Revokes, r.Queued, r.VRAM>>20)
		if bar > 0 {
			line += " " + topBar(r.Share, r.Expected, bar)
		}
		lines = append(lines, line)
	}
	for i, l := range lines {
		lines[i] = l[:min(len(l), max(width, 0))]
	}
	return lines
}

// topBar draws a share as a bar with a mark at the expected one, in ASCII: it
// is to look the same on every terminal.
func topBar(share, expected float64, width int) string {
	cell := func(part float64) int { return int(math.Round(min(max(part, 0), 1) * float64(width))) }
	b := []byte(strings.Repeat("#", cell(share)) + strings.Repeat(".", width-cell(share)))
	if expected > 0 {
		b[min(cell(expected), width-1)] = '|'
	}
	return string(b)
}

// topFrame is a full screen: a title, the table and the keys, at most height lines.
func topFrame(rows []topRow, order, width, height int, at time.Time) []string {
	total := 0.0
	for _, r := range rows {
		total += r.Share
	}
	lines := []string{fmt.Sprintf("pvdrm top  %s  guests %d  compute %.1f%% busy  sorted by %s", at.Format(time.TimeOnly), len(rows), total*percent, topOrders[order].name), ""}
	lines = append(lines, topTable(rows, width)...)
	if len(rows) == 0 {
		lines = append(lines, "no guest yet: start some with pvdrm up or pvdrm run")
	}
	keys := "keys: q quit"
	for _, o := range topOrders {
		keys += fmt.Sprintf(", %c by %s", o.key, o.name)
	}
	if keep := max(height-1, 0); len(lines) > keep {
		lines = lines[:keep]
	}
	if height > 0 {
		lines = append(lines, keys)
	}
	for i, l := range lines {
		lines[i] = l[:min(len(l), max(width, 0))]
	}
	return lines
}

package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// GuestRows are the rows of so many guests, or contexts of a guest, that ran a program at the same time,
// from those of all their runs: medians, without a ratio to native.
func GuestRows(guests, contexts int, runs [][]ModeRow) []ModeRow {
	rows := modeRows(runs, nil, nil)
	for i := range rows {
		rows[i].Guests, rows[i].Contexts = guests, contexts
	}
	return rows
}

// WriteModeGuests writes a table of several guests at a time: how long each phase takes, and how many
// times as long init and close take as those of one guest.
func WriteModeGuests(w io.Writer, rows []ModeRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "program\tmode\tguests\tcontexts\tinit ms\tkernel ms\tclose ms\tinit + close\tverified\t")
	type key struct{ bench, mode string }
	first := map[key]float64{}
	for i := 0; i+len(modePhases) <= len(rows); i += len(modePhases) {
		of := map[string]ModeRow{}
		for _, r := range rows[i : i+len(modePhases)] {
			of[r.Phase] = r
		}
		r := rows[i]
		ends := of["init"].Seconds + of["close"].Seconds
		k := key{r.Bench, r.Mode}
		if _, ok := first[k]; !ok {
			first[k] = ends
		}
		times, verified := "", "yes"
		if first[k] > 0 {
			times = fmt.Sprintf("%.2f", ends/first[k])
		}
		if !of["total"].Verified {
			verified = "NO"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%s\t%s\t\n", r.Bench, r.Mode, max(r.Guests, 1), max(r.Contexts, 1), 1e3*of["init"].Seconds,
			1e3*(of["htod"].Seconds+of["launch"].Seconds+of["dtoh"].Seconds), 1e3*of["close"].Seconds, times, verified)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "Medians of all guests and contexts. Init + close: times those of the first number. In the thesis (Figure 4.10) full virtualization's grow with the number of contexts and of VMs, and those of the others hardly.")
	return err
}

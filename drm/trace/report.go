package trace

import (
	"fmt"
	"io"
	"time"
)

// Summary is a Report as JSON.
type Summary struct {
	Events      int      `json:"events"`
	Calls       int      `json:"calls"`
	Pages       int      `json:"pages"`
	Seconds     float64  `json:"seconds"`
	Differences []string `json:"differences"`
}

// Summary returns the report in a form for JSON.
func (r *Report) Summary() Summary {
	s := Summary{Events: r.Events, Calls: r.Calls, Pages: r.Pages, Seconds: r.Took.Seconds(), Differences: []string{}}
	for _, d := range r.Differences {
		s.Differences = append(s.Differences, d.String())
	}
	return s
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	for i, d := range r.Differences {
		head := "then"
		if i == 0 {
			head = "differs first"
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", head, d); err != nil {
			return err
		}
	}
	verdict := "all as recorded"
	if n := len(r.Differences); n == MostDifferences {
		verdict = fmt.Sprintf("%d differences or more", n)
	} else if n > 0 {
		verdict = fmt.Sprintf("%d differences", n)
	}
	_, err := fmt.Fprintf(w, "%d events, %d calls in %v, %d pages of memory compared: %s\n",
		r.Events, r.Calls, r.Took.Round(time.Microsecond), r.Pages, verdict)
	return err
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

// maxWhy bounds a cause, in bytes.
const maxWhy = 160

// readResults reads what writeResults wrote; no file is no results.
func readResults(file string) (map[string]result, error) {
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	results := map[string]result{}
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != 4 {
			return nil, fmt.Errorf("%s: not four cells: %q", file, line)
		}
		took, err := time.ParseDuration(cells[2])
		if err != nil {
			return nil, err
		}
		results[cells[0]] = result{outcome: outcome(cells[1]), took: took, why: cells[3]}
	}
	return results, nil
}

// writeResults writes the results of a list's programs, in the list's order.
func writeResults(file string, l *list, results map[string]result) error {
	var out bytes.Buffer
	for _, p := range l.programs {
		if r, done := results[p.name]; done {
			fmt.Fprintf(&out, "%s\t%s\t%s\t%s\n", p.name, r.outcome, r.took.Round(time.Millisecond), oneLine(r.why))
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// oneLine makes a cell of a text.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxWhy {
		s = strings.ToValidUTF8(s[:maxWhy], "")
	}
	return s
}

// writeTable writes a table of the results in Markdown, after how many there are of each.
func writeTable(file string, l *list, results map[string]result) error {
	var rows bytes.Buffer
	count := map[outcome]int{}
	for _, p := range l.programs {
		r, done := results[p.name]
		if !done {
			r.outcome = "not run"
		}
		count[r.outcome]++
		why := strings.ReplaceAll(oneLine(r.why), "|", `\|`)
		fmt.Fprintf(&rows, "| %s | `%s` | %s | %.1f | %s |\n", p.name, strings.ReplaceAll(p.command, "|", `\|`), r.outcome, r.took.Seconds(), why)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n\n%s, commit %s. Built by: %s.\n\n", l.suite, l.repository, l.commit, l.build)
	fmt.Fprintf(&out, "| outcome | programs |\n|---|---|\n")
	for _, o := range append(outcomes, "not run") {
		fmt.Fprintf(&out, "| %s | %d |\n", o, count[o])
	}
	fmt.Fprintf(&out, "\n| program | command | outcome | seconds | cause |\n|---|---|---|---|---|\n%s", rows.String())
	return os.WriteFile(file, out.Bytes(), 0o644)
}

package main

import (
	"encoding/json"
	"fmt"
	"io"

	"pvdrm/internal/suite"
)

// do runs the programs and reports each one as soon as it is done. It returns
// whether all results were right; the error is that of writing the report.
func (j job) do(run runner, log *counterLog, w io.Writer) (bool, error) {
	var out report = &table{w: w, total: len(j.names), floor: j.floor}
	if j.json {
		out = lines{json.NewEncoder(w)}
	}
	allRight := true
	for _, name := range j.names {
		if err := out.begin(name); err != nil {
			return false, err
		}
		results := make([]suite.Result, 0, j.repeat)
		for i := range j.repeat {
			res, err := run(name, suite.Options{Scale: j.scale, Known: j.known})
			if err != nil {
				return false, err
			}
			allRight = allRight && (res.Verified || j.floor)
			results = append(results, res)
			if err := out.ran(i+1, res); err != nil {
				return false, err
			}
		}
		if err := out.end(results); err != nil {
			return false, err
		}
		if j.counters {
			if err := log.print(w, name, j.json); err != nil {
				return false, err
			}
		}
	}
	return allRight, out.close()
}

// report takes the results: begin, ran for each run and end for each program in
// turn, then close.
type report interface {
	begin(name string) error
	ran(run int, res suite.Result) error
	end(results []suite.Result) error
	close() error
}

// lines reports each run as a line of JSON.
type lines struct{ enc *json.Encoder }

func (l lines) begin(string) error { return nil }

func (l lines) ran(run int, res suite.Result) error {
	return l.enc.Encode(struct {
		suite.Result
		Run int `json:"run"`
	}{res, run})
}

func (l lines) end([]suite.Result) error { return nil }
func (l lines) close() error             { return nil }

// table reports each program as a row. The name is written when a program starts,
// and so shows what is running.
type table struct {
	w        io.Writer
	total    int  // programs to come
	floor    bool // results are not checked
	begun    bool
	verified int
}

func (t *table) begin(name string) error {
	if !t.begun {
		t.begun = true
		if _, err := fmt.Fprintf(t.w, "%-10s%10s%10s%10s%10s%10s%11s%11s\n",
			"time in ms", "init", "htod", "launch", "dtoh", "close", "total", "doorbells"); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(t.w, "%-10s", name)
	return err
}

func (t *table) ran(int, suite.Result) error { return nil }

func (t *table) end(results []suite.Result) error {
	word := "verified"
	if t.floor {
		word = "not checked"
	}
	for _, r := range results {
		if !r.Verified && !t.floor {
			_, err := fmt.Fprintf(t.w, "  FAILED: %s\n", r.Error)
			return err
		}
	}
	if !t.floor {
		t.verified++
	}
	p, doorbells := mean(results)
	ms := func(seconds float64) string { return fmt.Sprintf("%10.2f", 1e3*seconds) }
	_, err := fmt.Fprintf(t.w, "%s%s%s%s%s %s%11.0f  %s\n",
		ms(p.Init), ms(p.HtoD), ms(p.Launch), ms(p.DtoH), ms(p.Close), ms(p.Total()), doorbells, word)
	return err
}

func (t *table) close() error {
	_, err := fmt.Fprintf(t.w, "%d of %d verified\n", t.verified, t.total)
	return err
}

// mean is taken over all runs but the first, which warms up, where there are more.
func mean(results []suite.Result) (p suite.Phases, doorbells float64) {
	if len(results) > 1 {
		results = results[1:]
	}
	n := float64(len(results))
	for _, r := range results {
		p.Init += r.Seconds.Init / n
		p.HtoD += r.Seconds.HtoD / n
		p.Launch += r.Seconds.Launch / n
		p.DtoH += r.Seconds.DtoH / n
		p.Close += r.Seconds.Close / n
		doorbells += float64(r.Doorbells) / n
	}
	return p, doorbells
}

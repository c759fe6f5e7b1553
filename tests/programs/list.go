package main

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The ways to judge a program.
const (
	bySays     = "says"     // its output matches an expression and has none of the words of failure
	byExit     = "exit"     // it compares its results, and its exit code says the outcome
	byH100     = "h100"     // its output matches what it printed on an H100
	byNone     = "none"     // it does not check itself: "not judged" if it ends well
	isExcluded = "excluded" // it is not run
)

// defaultFailure matches the words of programs whose results are wrong.
const defaultFailure = `FAIL\b|FAILED|FAILURE|[Ff]ailed|[Mm]ismatch`

// failureMark stands between the expression of success and that of failure.
const failureMark = " !! "

// list is a file of programs: lines "key value", then a row for each program, whose
// cells are divided by tabs: its folder, how it is judged, the expression or the reason,
// and its command.
type list struct {
	suite, repository, commit, build string
	folder                           string // of the programs, in the repository
	binary                           string // the name that the command has for the binary; NAME: the program's
	programs                         []program
}

// program is a row of a list.
type program struct {
	name, folder string
	judge        string
	success      *regexp.Regexp // of bySays and byH100
	failure      *regexp.Regexp
	reason       string // of the other kinds
	command      string
}

// readList reads a list. Every mistake in it is an error with its line.
func readList(file string) (*list, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it is only read
	l := &list{}
	keys := map[string]*string{"suite": &l.suite, "repository": &l.repository, "commit": &l.commit,
		"build": &l.build, "folder": &l.folder, "binary": &l.binary}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.Contains(line, "\t") {
			key, value, _ := strings.Cut(line, " ")
			if keys[key] == nil || *keys[key] != "" {
				return nil, fmt.Errorf("%s:%d: unknown or repeated key %q", file, n, key)
			}
			*keys[key] = value
			continue
		}
		p, err := parseProgram(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if slices.ContainsFunc(l.programs, func(q program) bool { return q.name == p.name }) {
			return nil, fmt.Errorf("%s:%d: %s is there twice", file, n, p.name)
		}
		l.programs = append(l.programs, p)
	}
	for key, value := range keys {
		if *value == "" {
			return nil, fmt.Errorf("%s: no %s", file, key)
		}
	}
	return l, lines.Err()
}

// parseProgram reads a row.
func parseProgram(line string) (program, error) {
	cells := strings.Split(line, "\t")
	if len(cells) != 4 || cells[0] == "" || cells[2] == "" || cells[3] == "" {
		return program{}, fmt.Errorf("not four cells: %q", line)
	}
	p := program{name: path.Base(cells[0]), folder: cells[0], judge: cells[1], command: cells[3]}
	what, failure, own := strings.Cut(cells[2], failureMark)
	if !own {
		failure = defaultFailure
	}
	var err error
	if p.failure, err = regexp.Compile(failure); err != nil {
		return program{}, err
	}
	switch p.judge {
	case bySays, byH100:
		p.success, err = regexp.Compile(what)
	case byExit, byNone, isExcluded:
		p.reason = what
	default:
		err = fmt.Errorf("unknown verdict %q", p.judge)
	}
	return p, err
}

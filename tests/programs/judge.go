package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// outcome is what became of a program.
type outcome string

// The outcomes. A wrong result is one that no error goes with.
const (
	ok        outcome = "ok"
	wrong     outcome = "wrong"
	failed    outcome = "error"
	timedOut  outcome = "time-out"
	notJudged outcome = "not judged"
	excluded  outcome = "excluded"
)

// outcomes are all of them, in the order of the table.
var outcomes = []outcome{ok, wrong, failed, timedOut, notJudged, excluded}

// ending is how a program ended.
type ending struct {
	timedOut bool
	code     int    // of its exit; from 128 on, a signal's
	output   string // standard output and standard error
}

// reported matches what tells a user that the device or the library has refused
// something: lines of PVDRM's libraries, and the programs' own words for CUDA's errors.
var reported = regexp.MustCompile(`(?m)^libcuda(rt)?: .*|.*(cudaError[A-Z]|CUDA_ERROR_|(?i:cuda (runtime )?(api )?(error|fail))|code=\d+\(|error code ).*|.*[Ww]aiv(ed|ing).*`)

// signalled is the first exit code of a program that a signal has ended.
const signalled = 128

// result is an outcome, with one line about its cause.
type result struct {
	outcome outcome
	why     string
	took    time.Duration
}

// verdict judges a program by how it ended.
func (p *program) verdict(e ending) (outcome, string) {
	if e.timedOut {
		return timedOut, strings.TrimSpace(reported.FindString(e.output))
	}
	failure := strings.TrimSpace(lineOf(p.failure, e.output))
	passed := e.code == 0 && failure == ""
	switch p.judge {
	case bySays, byH100:
		passed = passed && p.success.MatchString(e.output)
	case byNone:
		passed = passed && !reported.MatchString(e.output)
		if passed {
			return notJudged, p.reason
		}
	}
	if passed {
		return ok, ""
	}
	if cause := strings.TrimSpace(reported.FindString(e.output)); cause != "" {
		return failed, cause
	}
	last := strings.TrimSpace(e.output)
	last = last[strings.LastIndexByte(last, '\n')+1:]
	switch {
	case e.code >= signalled:
		return failed, fmt.Sprintf("signal %d: %s", e.code-signalled, last)
	case failure != "":
		return wrong, failure
	case e.code != 0 && p.judge != byExit:
		return failed, fmt.Sprintf("exit code %d: %s", e.code, last)
	case e.code != 0:
		return wrong, fmt.Sprintf("exit code %d: %s", e.code, last)
	}
	return wrong, "does not say that it verified: " + last
}

// lineOf returns the line of a text in which an expression first matches.
func lineOf(e *regexp.Regexp, text string) string {
	at := e.FindStringIndex(text)
	if at == nil {
		return ""
	}
	line, _, _ := strings.Cut(text[at[0]:], "\n")
	return text[strings.LastIndexByte(text[:at[0]], '\n')+1:at[0]] + line
}

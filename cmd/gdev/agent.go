package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"pvdrm/frontend"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/bench/micro"
	"pvdrm/internal/suite"
)

// serveAgent is `gdev agent`, for `pvdrm bench`. Each request is served by a new
// process, since that is what a run of a program is.
func serveAgent(in io.Reader, stdout, stderr io.Writer) int {
	card, err := openCard()
	if err == nil && card != nil {
		err = card.serve(in, stdout)
	} else { // each request says what is wrong with the GPU
		err = agent.Serve(in, stdout, inProcess)
	}
	if err != nil {
		fmt.Fprintf(stderr, "gdev: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func inProcess(req agent.Request) (a agent.Answer, err error) {
	switch {
	case req.Hello:
		h := agent.Here()
		a.Hello = &h
		return a, nil
	case req.Micro:
		err = again(req, func(line []byte) error {
			var r micro.Result
			err := json.Unmarshal(line, &r)
			a.Micro = append(a.Micro, r)
			return err
		}, "micro", "--json", "--time", max(req.Budget, time.Millisecond).String())
		return a, err
	}
	if n := req.Contexts; n > 0 {
		req.Contexts = 0
		a.Results, err = agent.Together(n, func() (suite.Result, error) {
			one, err := inProcess(req)
			if err != nil {
				return suite.Result{}, err
			}
			return *one.Result, nil
		})
		return a, err
	}
	args := []string{"run", "--json", "--scale", strconv.Itoa(max(req.Scale, 1))}
	if req.Known != "" {
		args = append(args, "--known", req.Known)
	}
	if req.Floor {
		args = append(args, "--floor")
	}
	a.Result = &suite.Result{}
	err = again(req, func(line []byte) error { return json.Unmarshal(line, a.Result) }, append(args, req.Bench)...)
	return a, err
}

// again runs this program again with other arguments and hands on the lines
// that it prints. A program that fails but prints what it found is in order.
func again(req agent.Request, line func([]byte) error, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding gdev's own file: %w", err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), frontend.ConfigEnv+"="+req.Config)
	ended := cmd.Run()
	if out.Len() == 0 {
		return fmt.Errorf("gdev %s: %w: %s", strings.Join(args, " "), ended, strings.TrimSpace(errs.String()))
	}
	for b := range bytes.Lines(out.Bytes()) {
		if err := line(b); err != nil {
			return fmt.Errorf("gdev %s printed %q: %w", strings.Join(args, " "), b, err)
		}
	}
	return nil
}

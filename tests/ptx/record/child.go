package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"pvdrm/tests/ptx/internal/fixture"
)

// A fault of a kernel spoils the CUDA driver for its process, and its compiler
// may crash. So a child process records, and another goes on where one ended.

// result is what a child writes to standard output for each fixture, as JSON.
type result struct {
	Path  string
	Text  string // the recording
	Error string // why there is none
}

// runChild starts a child for the given fixtures and returns the results for
// the first of them, up to one whose kernel faults. With an error it ended on
// the fixture after these.
func runChild(ordinal, level int, paths []string) (results []result, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-child", "-device", strconv.Itoa(ordinal), "-level", strconv.Itoa(level))
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\n"))
	var messages strings.Builder
	cmd.Stderr = &messages
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(stdout)
	for {
		var r result
		if err := decoder.Decode(&r); err != nil {
			break // the end, or a child that died while it wrote
		}
		results = append(results, r)
	}
	if err := cmd.Wait(); err != nil {
		first, _, _ := strings.Cut(messages.String(), "\n")
		return results, fmt.Errorf("%w: %s", err, first)
	}
	return results, nil
}

// serve is the child: it records the fixtures whose paths it reads.
func serve(ordinal, level int, in io.Reader, out io.Writer) error {
	gpu, err := openCUDA(ordinal, level)
	if err != nil {
		return err
	}
	header := fixture.Recording{Date: time.Now().UTC().Format(time.DateOnly)}
	if header.Device, header.Driver, err = gpu.describe(); err != nil {
		return err
	}
	encoder, lines := json.NewEncoder(out), bufio.NewScanner(in)
	for lines.Scan() {
		r := result{Path: lines.Text()}
		text, faulted, err := recordOne(gpu, r.Path, header)
		if r.Text = string(text); err != nil {
			r.Error = err.Error()
		}
		if err := encoder.Encode(&r); err != nil {
			return err
		}
		if faulted {
			return nil
		}
	}
	return lines.Err()
}

// recordOne returns the recording of a fixture, and whether its kernel faulted.
func recordOne(gpu *cuda, path string, r fixture.Recording) (text []byte, faulted bool, err error) {
	f, err := read(path)
	if err != nil {
		return nil, false, err
	}
	r.Digest = f.Digest()
	r.Outputs, err = gpu.run(f)
	var bad *fault
	switch {
	case errors.As(err, &bad) && !f.Faults:
		return nil, true, fmt.Errorf("%w; a fixture that is to do so has a line \"//! fault\"", err)
	case bad != nil:
		r.Fault = bad.name
	case err != nil:
		return nil, false, err
	case f.Faults:
		return nil, false, errors.New("it has a line \"//! fault\" but ran to its end")
	}
	return f.Format(&r), bad != nil, nil
}

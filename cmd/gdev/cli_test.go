package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/suite"
)

// gpu is a GPU on which all programs but the broken one work. Each run takes
// one second more than the one before in all phases, and 10 doorbells more.
func gpu(broken string) func(bool) (runner, error) {
	return func(bool) (runner, error) {
		runs := 0
		return func(name string, opts suite.Options) (suite.Result, error) {
			runs++
			s := float64(runs)
			res := suite.Result{
				Bench: name, Verified: true, Doorbells: uint64(10 * runs),
				Seconds: suite.Phases{Init: s, HtoD: s, Launch: s, DtoH: s, Close: s},
			}
			if opts.Scale > 1 {
				res.Scale = opts.Scale
			}
			if name == broken {
				res.Verified, res.Error = false, "c[0] is 1, want 2"
			}
			return res, nil
		}, nil
	}
}

func gdev(t *testing.T, broken string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = command(args, &out, &errs, &counterLog{}, gpu(broken))
	return code, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string // in what is printed
	}{
		{code: exitUsage, want: "Usage:"},
		{args: "help", code: exitOK, want: "Usage:"},
		{args: "--help", code: exitOK, want: "Usage:"},
		{args: "run --help", code: exitOK, want: "Usage:"},
		{args: "run madd -h", code: exitOK, want: "Usage:"},
		{args: "fly", code: exitUsage, want: `no command "fly"`},
		{args: "list all", code: exitUsage, want: "list takes no arguments"},
		{args: "run", code: exitUsage, want: "name programs to run, or say --all"},
		{args: "run --all madd", code: exitUsage, want: "not both"},
		{args: "run mad", code: exitUsage, want: `unknown program "mad" (want nop, loop`},
		{args: "run madd --repeat 0", code: exitUsage, want: "must be at least 1"},
		{args: "run madd --repeat x", code: exitUsage, want: "invalid value"},
		{args: "run madd --scale 3", code: exitUsage, want: "must be a power of two"},
		{args: "run --fast madd", code: exitUsage, want: "-fast"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := gdev(t, "", strings.Fields(c.args)...)
			require.Equal(t, c.code, code)
			require.Contains(t, stdout+stderr, c.want)
			require.Equal(t, c.code == exitOK, stderr == "", "errors go to stderr, help that was asked for does not")
		})
	}
}

func TestList(t *testing.T) {
	code, stdout, _ := gdev(t, "", "list")
	require.Equal(t, exitOK, code)
	require.Equal(t, len(suite.All()), strings.Count(stdout, "\n"))
	require.Contains(t, stdout, "madd       addition of integer matrices (1024 x 1024)\n")
}

func TestTable(t *testing.T) {
	code, stdout, stderr := gdev(t, "", "run", "nop", "madd")
	require.Equal(t, exitOK, code)
	require.Empty(t, stderr)
	require.Equal(t, ""+
		"time in ms      init      htod    launch      dtoh     close      total  doorbells\n"+
		"nop          1000.00   1000.00   1000.00   1000.00   1000.00    5000.00         10  verified\n"+
		"madd         2000.00   2000.00   2000.00   2000.00   2000.00   10000.00         20  verified\n"+
		"2 of 2 verified\n", stdout)
}

func TestTableOfFailure(t *testing.T) {
	code, stdout, _ := gdev(t, "madd", "run", "--all")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, "\nmadd        FAILED: c[0] is 1, want 2\n")
	require.Contains(t, stdout, "\n15 of 16 verified\n")
}

// The first of several runs stays out of the means.
func TestRepeat(t *testing.T) {
	code, stdout, _ := gdev(t, "", "run", "--repeat", "3", "madd")
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout,
		"madd         2500.00   2500.00   2500.00   2500.00   2500.00   12500.00         25  verified\n1 of 1 verified\n")
}

func TestJSON(t *testing.T) {
	_, stdout, _ := gdev(t, "", "run", "madd", "--json", "--scale", "8")
	require.Contains(t, stdout, `"scale":8`)
	code, stdout, _ := gdev(t, "bp", "run", "madd", "bp", "--json", "--repeat=2")
	require.Equal(t, exitFailed, code)
	rows := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, rows, 4)
	require.JSONEq(t, `{"bench": "madd", "run": 2, "verified": true, "doorbells": 20, "interrupts": 0,
		"seconds": {"init": 2, "htod": 2, "launch": 2, "dtoh": 2, "close": 2}}`, rows[1])
	var last suite.Result
	require.NoError(t, json.Unmarshal([]byte(rows[3]), &last))
	require.False(t, last.Verified)
	require.Equal(t, "c[0] is 1, want 2", last.Error)
}

// Without a GPU every result is wrong, and that is in order.
func TestFloor(t *testing.T) {
	var out, errs bytes.Buffer
	code := command([]string{"run", "--floor", "nop", "madd"}, &out, &errs, &counterLog{}, new(counterLog).openGPU)
	require.Equal(t, exitOK, code, errs.String())
	require.Equal(t, 2, strings.Count(out.String(), " 0  not checked\n"), out.String())
	require.Contains(t, out.String(), "0 of 2 verified\n")
	out.Reset()
	require.Equal(t, exitOK, command([]string{"run", "--floor", "--json", "madd"}, &out, &errs, &counterLog{}, new(counterLog).openGPU))
	var res suite.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &res))
	require.False(t, res.Verified)
	require.Empty(t, res.Error)
	require.Positive(t, res.Seconds.Total())
}

func TestNoGPU(t *testing.T) {
	var out, errs bytes.Buffer
	code := command([]string{"run", "nop"}, &out, &errs, &counterLog{},
		func(bool) (runner, error) { return nil, errors.New("no such device") })
	require.Equal(t, exitFailed, code)
	require.Empty(t, out.String())
	require.Equal(t, "gdev: cannot use the GPU: no such device\n", errs.String())
}

// fullDisk refuses all writes.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestReportThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"run", "nop"}, {"run", "nop", "--json"}} {
		var errs bytes.Buffer
		require.Equal(t, exitFailed, command(args, fullDisk{}, &errs, &counterLog{}, gpu("")))
		require.Equal(t, "gdev: disk full\n", errs.String())
	}
}

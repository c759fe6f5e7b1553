package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
	"pvdrm/internal/bench"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/bench/clang"
)

func TestBenchUsage(t *testing.T) {
	for args, want := range map[string]string{
		"bench micro suite":                                `"micro suite": bench takes one of micro, suite, clang, or nothing`,
		"bench fast":                                       `"fast": bench takes`,
		"bench clang --device cuda":                        "it takes no --device cuda",
		"bench clang --bench nop":                          "--bench: in C there are the kernels of loop",
		"bench --processors 1":                             "--processors goes with bench clang",
		"bench clang --processors 0":                       "--processors 0: there are 1 to ",
		"bench clang --processors 1,4096":                  "--processors 4096: there are 1 to ",
		"bench --scale --modes local":                      "--scale finds out natively",
		"bench --runs 0":                                   "--runs 0: must be at least 1",
		"bench --bench mad":                                `unknown program "mad"`,
		"bench --modes native,xen":                         `there is no mode "xen", only native, local, vm, vm-floor`,
		"bench --config fast":                              `"fast" is neither full nor made of nopoll, nomulticall, nopool`,
		"bench --ablation --config full":                   "not both",
		"bench --json /nowhere/r --runs 1":                 "/nowhere/r",
		"bench --against /nowhere/pvdrm":                   "--against: stat /nowhere/pvdrm",
		"bench --against /etc/passwd":                      "/etc/passwd is no program",
		"bench --against /bin/true --runs 6":               "a comparison needs 7 rounds or more",
		"bench --against /bin/true --scale":                "--against goes without --scale",
		"bench --against /bin/true --modes vm-floor":       "--against goes without vm-floor",
		"bench clang --against /bin/true":                  "goes without clang",
		"bench --against /bin/true --modes native --quota": "flag needs an argument",
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(args))
		root.SetOut(new(bytes.Buffer))
		err := root.Execute()
		require.ErrorContains(t, err, want, args)
	}
}

func TestNativeAgent(t *testing.T) {
	device, err := softgpu.New(softgpu.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, device.Close()) }()
	empty := device.Stats().VRAMUsed
	handle := nativeHandler(device, onDevice(device))
	a, err := handle(agent.Request{Hello: true})
	require.NoError(t, err)
	require.Equal(t, device.Properties().Name, a.Hello.Device)
	a, err = handle(agent.Request{Bench: "madd"})
	require.NoError(t, err)
	require.True(t, a.Result.Verified, a.Result.Error)
	require.Positive(t, a.DeviceSeconds)
	require.Less(t, a.DeviceSeconds, a.Result.Seconds.Total())
	_, err = handle(agent.Request{Bench: "mad"})
	require.ErrorContains(t, err, `unknown program "mad"`)
	a, err = handle(agent.Request{Micro: true, Budget: 1})
	require.NoError(t, err)
	require.NotEmpty(t, a.Micro)
	require.Equal(t, empty, device.Stats().VRAMUsed, "everything is given back")
}

// A short bench of the programs as they are built, from the command line to the files.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"pvdrm", "gdev"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), "pvdrm/cmd/"+name)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(file("pvdrm"), append([]string{"bench"}, args...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err, "%s%s", out, errs.Bytes())
		for line := range strings.Lines(errs.String()) { // what confinement this host or user lacks, and PoCL
			require.Regexp(t, "the backend goes without|OpenCL is not installed", line, "nothing else is said")
		}
		return string(out)
	}

	out := run("--runs", "1", "--bench", "nop,cpy", "--modes", "native,local", "--config", "full,nopool", "--micro-time", "1ms",
		"--json", file("r.json"), "--csv", file("r.csv"), "--html", file("r.html"))
	require.Contains(t, out, "\nlocal nopool: ")
	lines := readLines(t, file("r.json"))
	var rows []bench.Row
	micros := map[bench.Series]int{}
	for _, line := range lines {
		var m bench.Micro
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		if m.Micro != "" {
			micros[bench.Series{Mode: m.Mode, Config: m.Config}]++
			require.Positive(t, m.NS)
			require.Positive(t, m.BaselineNS)
			continue
		}
		var r bench.Row
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		rows = append(rows, r)
	}
	const places, phases = 3, 6
	require.Len(t, rows, 2*places*phases)
	for _, r := range rows {
		require.True(t, r.Verified, "%+v", r)
		require.Equal(t, r.Mode == bench.Local, r.Doorbells > 0, "%+v", r)
		if r.Phase == "total" {
			require.Positive(t, r.Seconds)
			require.NotNil(t, r.Ratio)
		}
	}
	require.Equal(t, map[bench.Series]int{
		{Mode: bench.Native, Config: bench.Full}: 7, // no bare ring, which has two
		{Mode: bench.Local, Config: bench.Full}:  9,
		{Mode: bench.Local, Config: "nopool"}:    9,
	}, micros)
	require.Len(t, readLines(t, file("r.csv")), 1+len(lines))
	require.Contains(t, readLines(t, file("r.html"))[0], "<!doctype html>")

	said, err := exec.Command(file("pvdrm"), "bench", "--modes", "native", "--device", "voodoo").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), `"voodoo"`)

	if _, err := clang.Find(); err == nil {
		compareWithC(t, run, file("c.json"))
	}
	t.Setenv("PATH", dir) // without compilers the bench goes on, unless they are all it is about
	out = run("--runs", "1", "--bench", "nn", "--modes", "native", "--micro-time", "1ms")
	require.Contains(t, out, "C kernels: left out: ")
	said, err = exec.Command(file("pvdrm"), "bench", "clang").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "apt install clang")

	compareWithItself(t, file("pvdrm"))

	out = run("micro", "--modes", "native", "--micro-time", "1ms")
	require.Contains(t, out, "launch-sync")
	require.NotContains(t, out, "madd")
}

// compareWithC runs programs in C, too, and with as many processors as there are for all.
func compareWithC(t *testing.T, run func(...string) string, report string) {
	t.Helper()
	out := run("clang", "--runs", "1", "--bench", "nn,lud,nop", "--json", report)
	require.Regexp(t, `(?s)-march=x86-64-v\d.*OpenCL: `, out) // and its version, or why it is left out
	requireClang(t, report, "lud", "nn", bench.GeometricMean)
	out = run("clang", "--runs", "1", "--bench", "hmmul", "--processors", "1", "--json", report)
	require.Regexp(t, `hmmul .*\d`, out)
	requireClang(t, report, "hmmul", bench.GeometricMean)
}

// requireClang checks the rows of a comparison with clang, by program.
func requireClang(t *testing.T, file string, want ...string) {
	t.Helper()
	var names []string
	for _, line := range readLines(t, file) {
		var r bench.ClangRow
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		require.True(t, r.Verified, "%+v", r)
		require.Positive(t, r.Ratio)
		names = append(names, r.Clang)
	}
	require.Equal(t, want, names)
}

// A thread has few processors for a while, and what it starts then keeps them.
func TestWithProcessors(t *testing.T) {
	count := func() (n int) {
		out, err := exec.Command("nproc").Output()
		require.NoError(t, err)
		_, err = fmt.Sscan(string(out), &n)
		require.NoError(t, err)
		return n
	}
	all := count()
	require.NoError(t, withProcessors(1, func() error {
		require.Equal(t, 1, count())
		return nil
	}))
	require.Equal(t, all, count())
	require.EqualError(t, withProcessors(all, func() error { return errors.New("no") }), "no")
	require.ErrorContains(t, withProcessors(all+1, func() error { return nil }), "not "+fmt.Sprint(all+1))
}

// compareWithItself compares a build with itself; whether it is worse is chance.
func compareWithItself(t *testing.T, pvdrm string) {
	t.Helper()
	said, err := exec.Command(pvdrm, "bench", "suite", "--against", pvdrm, "--modes", "native,local", "--bench", "nop", "--runs", "7").Output()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		require.NoError(t, err, "%s", said)
	}
	require.Regexp(t, `(?s)this build against the other.*\n +nop +native +6 .*\n +nop +local +6 `, string(said))
	require.NotContains(t, string(said), "WRONG RESULTS")
}

// A comparison has the quick programs and, without --runs, enough rounds for its intervals.
func TestAgainstDefaults(t *testing.T) {
	c := newBench(&global{})
	require.NoError(t, c.ParseFlags([]string{"--against", "/bin/true"}))
	f := benchFlags{against: "/bin/true", runs: defaultRuns, microTime: defaultMicro, modes: modeNames()}
	require.NoError(t, f.complete(c))
	require.Equal(t, defaultRuns, f.runs)
	require.GreaterOrEqual(t, f.runs, bench.LeastRounds)
	require.Equal(t, quickBenches, f.benches)
	require.Equal(t, quickMicro, f.microTime)
	require.Equal(t, []string{"native", "local", "vm"}, f.modes)
}

// Only what was given travels to another build, lists too.
func TestGivenFlags(t *testing.T) {
	var dev deviceFlags
	c := &cobra.Command{}
	dev.add(c)
	c.Flags().Int("runs", 1, "")
	require.NoError(t, c.Flags().Parse([]string{"--quota", "vram=1G,channels=2", "--quota", "modules=3", "--runs", "4", "--sms=2"}))
	require.ElementsMatch(t, []string{"--quota=vram=1G,channels=2,modules=3", "--sms=2"}, given(c.Flags(), new(deviceFlags).add))
}

func readLines(t *testing.T, path string) []string {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

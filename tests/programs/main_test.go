package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLists reads the lists of this folder.
func TestLists(t *testing.T) {
	for file, programs := range map[string]int{"hecbench.txt": 150, "cuda-samples.txt": 93, "hecbench-small.txt": 123,
		"rodinia.txt": 25, "polybench.txt": 21, "shoc.txt": 18, "thrust.txt": 58, "llm.c.txt": 22} {
		l, err := readList(file)
		require.NoError(t, err)
		assert.Len(t, l.programs, programs, file)
		assert.Regexp(t, "^[0-9a-f]{40}$", l.commit, file)
		for _, p := range l.programs {
			assert.False(t, p.success != nil && p.success.MatchString(""), "%s: %s is judged ok without a word", file, p.name)
		}
	}
}

// TestListsWithMistakes reads lists that are wrong.
func TestListsWithMistakes(t *testing.T) {
	const head = "suite s\nrepository r\ncommit c\nbuild b\nfolder f\nbinary NAME\n"
	for name, text := range map[string]string{
		"no commit":        "suite s\nrepository r\nbuild b\nfolder f\nbinary NAME\n",
		"unknown key":      head + "colour red\n",
		"repeated key":     head + "suite t\n",
		"three cells":      head + "a\tsays\tPASS\n",
		"unknown verdict":  head + "a\tguess\tPASS\t./a\n",
		"bad expression":   head + "a\tsays\t(\t./a\n",
		"bad failure":      head + "a\tsays\tPASS !! (\t./a\n",
		"a program, twice": head + "a\tsays\tPASS\t./a\nb/a\tsays\tPASS\t./a\n",
	} {
		file := filepath.Join(t.TempDir(), "list.txt")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		_, err := readList(file)
		assert.Error(t, err, name)
	}
}

// TestVerdicts judges endings.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name, row string
		end       ending
		want      outcome
	}{
		{name: "passes", row: "a\tsays\tPASS\tx", end: ending{output: "PASS\n"}, want: ok},
		{name: "passes and fails", row: "a\tsays\tPASS\tx", end: ending{output: "PASS\nFAIL\n"}, want: wrong},
		{name: "silent", row: "a\tsays\tPASS\tx", end: ending{output: "done\n"}, want: wrong},
		{name: "fails after an error", row: "a\tsays\tPASS\tx", end: ending{output: "libcuda: cuX: no\nFAIL\n"}, want: failed},
		{name: "waived", row: "a\tsays\tPASS\tx", end: ending{code: 2, output: "Waiving the run\n"}, want: failed},
		{name: "crashes", row: "a\tsays\tPASS\tx", end: ending{code: 139}, want: failed},
		{name: "passes, and does not end well", row: "a\tsays\tPASS\tx", end: ending{code: 1, output: "PASS\n"}, want: failed},
		{name: "an error that it handles", row: "a\tsays\tPASS\tx", end: ending{output: "libcuda: cuX: no\nPASS\n"}, want: ok},
		{name: "its own words of failure", row: "a\tsays\tPASS !! BAD\tx", end: ending{output: "Failed as expected\nPASS\n"}, want: ok},
		{name: "exit code 0", row: "a\texit\tcompares\tx", want: ok},
		{name: "exit code 1", row: "a\texit\tcompares\tx", end: ending{code: 1}, want: wrong},
		{name: "exit code 0, and says that it failed", row: "a\texit\tcompares\tx", end: ending{output: "Test failed!\n"}, want: wrong},
		{name: "another number than an H100's", row: "a\th100\tsum 5\tx", end: ending{output: "sum 6\n"}, want: wrong},
		{name: "does not check itself", row: "a\tnone\ttimes\tx", want: notJudged},
		{name: "does not check itself, and fails", row: "a\tnone\ttimes\tx", end: ending{code: 1, output: "cudaErrorNotSupported\n"}, want: failed},
		{name: "does not check itself, and ignores an error", row: "a\tnone\ttimes\tx", end: ending{output: "libcuda: cuX: no\n"}, want: failed},
		{name: "too long", row: "a\tsays\tPASS\tx", end: ending{timedOut: true, output: "PASS\n"}, want: timedOut},
	} {
		p, err := parseProgram(c.row)
		require.NoError(t, err, c.name)
		got, why := p.verdict(c.end)
		assert.Equal(t, c.want, got, "%s: %s", c.name, why)
	}
}

// TestRuns runs scripts in place of programs, with a pvdrm that only starts them.
func TestRuns(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
	}
	write("pvdrm", "#!/bin/bash\nshift 4\nexec \"$@\"\n")
	write("list.txt", `suite s
repository r
commit c
build b
folder src
binary main
good	says	PASS	./main input && ./main ../data/more
slow	says	PASS	./main
left	excluded	needs a display	./main
plain	h100	[0-9a-f]{64}	./main | tee /dev/stderr | sha256sum
`)
	write("src/s/src/good/input", "7")
	write("src/s/src/good/main", "not the program")
	write("src/s/src/data/more", "8")
	write("src/s/src/slow/input", "")
	write("bin/s/good", "#!/bin/bash\necho PASS $(cat $1) $(cat made); echo changed > input\n")
	write("bin/s/good.files/made", "9")
	write("bin/s/plain", "#!/bin/bash\necho 5 $(ls)\n")
	write("bin/s/slow", "#!/bin/bash\nsleep 600 & wait\n")
	r := runner{bin: dir + "/bin", src: dir + "/src", out: dir + "/out", pvdrm: dir + "/pvdrm", sm: "9.0", limit: 10 * time.Minute}
	l, err := readList(filepath.Join(dir, "list.txt"))
	require.NoError(t, err)
	_, err = r.suite(context.Background(), l, regexp.MustCompile("good|plain"), false)
	require.NoError(t, err)
	r.limit = 100 * time.Millisecond
	results, err := r.suite(context.Background(), l, regexp.MustCompile(""), false)
	require.NoError(t, err)
	assert.Equal(t, ok, results["good"].outcome, results["good"].why)
	assert.Equal(t, timedOut, results["slow"].outcome)
	assert.Equal(t, ok, results["plain"].outcome, "a program without a folder of its own: %s", results["plain"].why)
	assert.Equal(t, result{outcome: excluded, why: "needs a display"}, results["left"])

	out, err := os.ReadFile(dir + "/out/s/good.out")
	require.NoError(t, err)
	assert.Equal(t, "PASS 7 9\nPASS 8 9\n", string(out))
	input, err := os.ReadFile(dir + "/src/s/src/good/input")
	require.NoError(t, err)
	assert.Equal(t, "7", string(input), "a program has changed its sources")

	read, err := readResults(dir + "/out/s.txt")
	require.NoError(t, err)
	assert.Len(t, read, 4)
	require.NoError(t, writeTable(dir+"/table.md", l, read))
	table, err := os.ReadFile(dir + "/table.md")
	require.NoError(t, err)
	assert.Contains(t, string(table), "| ok | 2 |\n| wrong | 0 |\n| error | 0 |\n| time-out | 1 |\n| not judged | 0 |\n| excluded | 1 |")
}

// TestKeeper keeps the beginning and the end of much output.
func TestKeeper(t *testing.T) {
	var k keeper
	_, _ = k.Write([]byte("first "))
	for range 100 {
		_, _ = k.Write(make([]byte, maxOutput/10))
	}
	_, _ = k.Write([]byte(" last"))
	assert.Regexp(t, "^first (?s:.*) last$", k.String())
	assert.LessOrEqual(t, len(k.String()), 3*maxOutput)
}

package ptx_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/tests/ptx/internal/fixture"
)

// corpusFolders hold the fixtures.
var corpusFolders = []string{"op", "texture", "tensor", "kernels", "cuda"}

// fixtures is another folder to take them from.
var fixtures = flag.String("fixtures", "", "run the fixtures of this folder in place of the usual ones, with no known failures")

// update makes TestCorpus write the list of known failures anew.
var update = flag.Bool("update-known-failures", false, "write "+knownFailuresFile+" anew from what fails now")

// knownFailuresFile lists what an engine is known to get wrong, one "engine
// fixture" a line, so that everything else stays right. A line whose fixture
// passes is an error: it must go.
const knownFailuresFile = "known-failures.txt"

// knownFailuresHead is the comment at its top.
const knownFailuresHead = `# Fixtures that an engine is known to get wrong: "engine fixture". The test fails
# for a line that passes, as for a fixture that fails without a line. Write it anew:
# go test ./tests/ptx -run TestCorpus -update-known-failures
`

// entry is one fixture with what the GPU returned.
type entry struct {
	fixture   *fixture.Fixture
	recording *fixture.Recording // nil if there is none
	unusable  error              // why a recording cannot be read
}

// readCorpus returns all fixtures, which tests must not change.
func readCorpus(t testing.TB) []entry {
	t.Helper()
	all, err := readOnce()
	require.NoError(t, err)
	return all
}

// readOnce reads all fixtures.
var readOnce = sync.OnceValues(func() (all []entry, err error) {
	folders := corpusFolders
	if *fixtures != "" {
		folders = []string{*fixtures}
	}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".ptx" {
				return err
			}
			e, err := readEntry(path)
			all = append(all, e)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
})

func readEntry(path string) (e entry, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	name := strings.TrimSuffix(path, ".ptx")
	if e.fixture, err = fixture.Parse(filepath.ToSlash(name), source); err != nil {
		return e, err
	}
	text, err := os.ReadFile(name + ".out")
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	e.recording, e.unusable = e.fixture.ParseRecording(text)
	return e, nil
}

// unrecorded are the instructions that no fixture has yet: those of folder matrix wait for
// their recording.
var unrecorded = map[ptx.Op]bool{
	ptx.OpSetmaxnreg: true,
}

// TestEveryInstructionHasAFixture looks for rows of the instruction table that
// no fixture uses.
func TestEveryInstructionHasAFixture(t *testing.T) {
	used := map[*ptx.Form]bool{}
	for _, c := range readCorpus(t) {
		m, err := ptx.Load(c.fixture.Name+".ptx", c.fixture.Source)
		require.NoError(t, err)
		for _, d := range m.Directives {
			f, ok := d.(*ptx.Func)
			if !ok {
				continue
			}
			for _, s := range f.Body {
				if i, ok := s.(*ptx.Instr); ok {
					used[i.Form] = true
				}
			}
		}
	}
	for _, f := range ptx.Forms() {
		waits := unrecorded[f.Op] || f.Derived || f.Op == ptx.OpCp && strings.Contains(f.Syntax(), "cache_hint")
		switch {
		case exec.Runs(f) != nil:
		case waits && used[f]:
			t.Errorf("a fixture uses %s: take it from the list of those without one", f.Syntax())
		case !waits && !used[f]:
			t.Errorf("no fixture uses %s", f.Syntax())
		}
	}
}

// readKnownFailures returns the lines of the list.
func readKnownFailures(t testing.TB) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(knownFailuresFile)
	require.NoError(t, err)
	known := map[string]bool{}
	if *fixtures != "" {
		return known
	}
	for _, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			known[line] = true
		}
	}
	return known
}

// TestCorpus runs every fixture on every engine and compares with the GPU.
func TestCorpus(t *testing.T) {
	corpus, known := readCorpus(t), readKnownFailures(t)
	var failures []string
	for _, e := range engines {
		if e.leftOut() {
			maps.DeleteFunc(known, func(line string, _ bool) bool { return strings.HasPrefix(line, e.name+" ") })
			continue
		}
		spread := map[string]fixture.Spread{}
		passed := 0
		for _, c := range corpus {
			line := e.name + " " + c.fixture.Name
			err := c.check(e, spread)
			switch {
			case err == nil && known[line] && !*update:
				t.Errorf("%s passes: remove it from %s", line, knownFailuresFile)
			case err != nil && *update:
				failures = append(failures, line)
			case err != nil && !known[line]:
				t.Errorf("%s: %v", line, err)
			case err == nil:
				passed++
			}
			delete(known, line)
		}
		t.Logf("%s: %d of %d fixtures equal the GPU", e.name, passed, len(corpus))
		logSpread(t, spread)
	}
	if *update {
		require.NoError(t, os.WriteFile(knownFailuresFile, []byte(knownFailuresHead+strings.Join(failures, "\n")+"\n"), 0o644))
		return
	}
	for line := range known {
		t.Errorf("%s lists %q, which is no engine and fixture", knownFailuresFile, line)
	}
}

// check runs one fixture. The error says in which way the engine differs.
func (c *entry) check(e engine, spread map[string]fixture.Spread) error {
	if c.unusable != nil {
		return fmt.Errorf("%w: record again", c.unusable)
	}
	if c.recording == nil {
		return errors.New("not recorded: run tests/ptx/record on a GPU")
	}
	if d := c.fixture.Digest(); d != c.recording.Digest {
		return fmt.Errorf("recorded for another source or input (digest %s, now %s): record again", c.recording.Digest, d)
	}
	got, err := e.run(c.fixture)
	if fault, ok := lost(err); ok && c.recording.Fault != "" {
		if want := causes[c.recording.Fault]; !slices.Contains(want, fault.Cause) {
			return fmt.Errorf("wrong: fault is %v, want one of %v (%s)", fault.Cause, want, c.recording.Fault)
		}
		return nil
	}
	switch {
	case err != nil:
		return err
	case c.recording.Fault != "":
		return fmt.Errorf("wrong: ran to its end, want %s", c.recording.Fault)
	}
	diffs, s := c.fixture.Compare(got, c.recording.Outputs)
	if len(diffs) > 0 {
		return fmt.Errorf("wrong: %d values, the first: %v", len(diffs), diffs[0])
	}
	if s != (fixture.Spread{}) {
		spread[c.fixture.Name] = s
	}
	return nil
}

// causes are the faults for the errors that CUDA names. A GPU that runs out of
// stack reports the address beyond it.
var causes = map[string][]gpu.LostCause{
	"CUDA_ERROR_ILLEGAL_ADDRESS":     {gpu.LostAddress, gpu.LostStack},
	"CUDA_ERROR_MISALIGNED_ADDRESS":  {gpu.LostAlign},
	"CUDA_ERROR_ILLEGAL_INSTRUCTION": {gpu.LostInstruction},
	"CUDA_ERROR_LAUNCH_FAILED":       {gpu.LostTrap},
}

// logSpread says how far the approximations are from the GPU's.
func logSpread(t *testing.T, spread map[string]fixture.Spread) {
	var names []string
	for name := range spread {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		s := spread[name]
		t.Logf("%-32s differs by up to %d ulp, %.3g absolute, %.3g relative", name, s.ULP, s.Abs, s.Rel)
	}
}

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inMachine is what is run in the machine of TestProgramsInAVirtualMachine.
type inMachine struct {
	name   string
	files  []string // that are copied into the machine, where they lie beside the script
	script string   // of the shell
	check  func(t *testing.T, code int, out string)
}

// TestProgramsInAVirtualMachine boots one machine with the Debian image and two GPUs, and runs programs of several kinds
// there: to boot a machine takes longer than most of them.
func TestProgramsInAVirtualMachine(t *testing.T) {
	runs := []inMachine{cProgramsInMachine(t), devicesInMachine(t), runtimeInMachine(t), staticRuntimeInMachine(t), gloopInMachine(t)}
	args := []string{"up", "--log", "error", "--image", "debian", "--device", "softgpu:2,0"}
	script := "#!/bin/sh\n"
	copied := map[string]bool{}
	for _, run := range runs {
		for _, file := range run.files {
			if !copied[file] {
				args = append(args, "--copy", file)
			}
			copied[file] = true
		}
		script += fmt.Sprintf("echo == %s\n(%s)\necho == %s ended $?\n", run.name, run.script, run.name)
	}
	// The script is the program: it is copied too, and its exit code comes back.
	all := filepath.Join(t.TempDir(), "all.sh")
	require.NoError(t, os.WriteFile(all, []byte(script+"exit $1\n"), 0o755))
	code, out := start(t, append(args, "--", all, "7")...).wait(t)
	out = strings.ReplaceAll(out, "\r\n", "\n")
	for _, run := range runs {
		t.Run(run.name, func(t *testing.T) {
			part := regexp.MustCompile(`(?s)== ` + run.name + `\n(.*)== ` + run.name + ` ended (\d+)\n`).FindStringSubmatch(out)
			require.NotNil(t, part, out)
			ended, err := strconv.Atoi(part[2])
			require.NoError(t, err)
			run.check(t, ended, part[1])
		})
	}
	require.Equal(t, 7, code, out)
	for _, text := range lacked { // by lacks, which is one of them; the script failed
		require.Contains(t, out, text)
	}
}

// oneByOne is a script that runs programs and ends with the first that fails.
func oneByOne(names ...string) string {
	return "for p in " + strings.Join(names, " ") + "; do echo run $p; ./$p || exit 9; done"
}

package tests

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu/softgpu"
)

// TestAnswers compares what PVDRM's libraries answer, where NVIDIA's manual leaves the answer open,
// with answers/pvdrm.txt, so that no change goes unseen, and with answers/nvidia.txt, which was
// recorded on a GPU. A difference from that must be a row of docs/cuda-programs.md.
func TestAnswers(t *testing.T) {
	lib, err := libcudaDir()
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "answers")
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, "answers/answers.c", "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	ask := func(runtime string) string {
		cmd := startHost(t, softgpu.Config{SMs: 2}).program(t, program)
		cmd.Args = append(cmd.Args, filepath.Join(lib, runtime))
		said, err := cmd.Output()
		require.NoError(t, err, "%s", said)
		return string(said)
	}
	want, err := os.ReadFile("answers/pvdrm.txt")
	require.NoError(t, err)
	said := registering(t, ask("libcudart.so.13"), string(want))
	require.Equal(t, string(want), said, "run answers/answers, look at what is other, and record it")
	recorded, err := os.ReadFile("answers/nvidia.txt")
	require.NoError(t, err)
	compareAnswers(t, answersOf(said), answersOf(string(recorded)))

	// The other majors answer the same, but for the size of a structure.
	for runtime, properties := range map[string]string{"libcudart.so.11.0": "0 728", "libcudart.so.12": "0 728"} {
		same := answersOf(said)
		same["runtime-properties"] = properties
		require.Equal(t, same, answersOf(registering(t, ask(runtime), string(want))), runtime)
	}
}

// registering takes what was recorded for the questions about memory that the program registers, where
// a filter keeps this process from what that needs.
func registering(t *testing.T, said, recorded string) string {
	t.Helper()
	fd, _, no := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1, 0, 0) // UFFD_USER_MODE_ONLY
	if no == 0 {
		require.NoError(t, unix.Close(int(fd)))
		return said
	}
	t.Logf("memory of the program cannot be registered here: userfaultfd: %v", no)
	about := func(line string) bool {
		return strings.HasPrefix(line, "reg-") || strings.HasPrefix(line, "device-pointer-of-registered ") ||
			strings.HasPrefix(line, "register-supported ") || strings.HasPrefix(line, "register-read-only-supported ")
	}
	all, now := "", answersOf(said)
	for line := range strings.Lines(recorded) {
		question, _, _ := strings.Cut(line, " ")
		if !about(line) && question != strings.TrimSpace(line) {
			line = question + " " + now[question] + "\n"
		}
		all += line
	}
	return all
}

// compareAnswers requires a row of the documentation for each difference, and a difference for
// each row.
func compareAnswers(t *testing.T, ours, theirs map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../docs/cuda-programs.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## Differs from NVIDIA's\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	used := map[string]bool{} // by row
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			used[strings.Trim(name, "`")] = false
		}
	}
	for question, answer := range theirs {
		if ours[question] == answer {
			continue
		}
		explained := false
		for row := range used {
			if ok, err := path.Match(row, question); err == nil && ok {
				used[row], explained = true, true
			}
		}
		assert.True(t, explained, "%s: PVDRM answers %q, NVIDIA's %q, and docs/cuda-programs.md has no row for it", question, ours[question], answer)
	}
	for row, differs := range used {
		assert.True(t, differs, "docs/cuda-programs.md: the answers to %s do not differ", row)
	}
	for question := range ours {
		if _, ok := theirs[question]; !ok {
			t.Logf("%s has not been asked of NVIDIA's libraries yet", question)
		}
	}
}

// answersOf maps questions to the rest of their lines.
func answersOf(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		question, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[question] = answer
	}
	return all
}

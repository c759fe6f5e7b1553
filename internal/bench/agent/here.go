package agent

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Here describes the machine that this process runs on. What cannot be found
// out is left empty.
func Here() Hello {
	h := Hello{Processors: runtime.NumCPU()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.System = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	info, _ := os.ReadFile("/proc/cpuinfo") // empty where there is none
	for line := range strings.Lines(string(info)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			h.Processor = strings.TrimSpace(value)
			break
		}
	}
	return h
}

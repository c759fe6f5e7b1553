package main

import (
	"os"
	"path/filepath"
)

// calmRuntime lets Go's own threads sleep longer than they ask for. While the main
// thread waits for a frame, the runtime's monitor looks after it every 20 µs: on an
// emulated processor that takes as long as the frame, and is no part of OpenGL.
//
// The kernel lets a process do this to its threads with CAP_SYS_NICE only, as in a
// guest. Where it does not, processors are real ones, and the monitor costs little.
func calmRuntime() {
	threads, _ := filepath.Glob("/proc/self/task/[0-9]*") // the pattern is good
	for _, t := range threads {
		// In nanoseconds: proc(5). Threads that start later inherit it.
		_ = os.WriteFile(filepath.Join("/proc", filepath.Base(t), "timerslack_ns"), []byte("10000000"), 0)
	}
}

package trace

import (
	"fmt"
	"os"
	"sync"

	"pvdrm/drm"
)

// Env names the environment variable with the path of the file into which a
// program's calls are recorded. It is overwritten if it is there.
const Env = "PVDRM_TRACE"

// ToEnv is the one trace of this process: a Writer to the file that the
// environment names, or nil if it names none.
var ToEnv = sync.OnceValues(func() (*Writer, error) {
	path := os.Getenv(Env)
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Env, err)
	}
	return NewWriter(f), nil // open to the end of the process
})

// FromEnv returns f, recorded if the environment asks for it. What was recorded
// is in the file whenever a wait or Close of f has returned.
func FromEnv(f drm.File) (drm.File, error) {
	w, err := ToEnv()
	if w == nil || err != nil {
		return f, err
	}
	return Record(f, w), nil
}

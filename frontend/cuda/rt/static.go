package rt

import (
	"os"
	"slices"
	"strings"
)

// StaticLibrary leads the calls of NVIDIA's static CUDA runtime within a program to
// libcudart.so beside it; see frontend/cuda/rt/static.
const StaticLibrary = "libpvdrm-static.so"

// WithStatic returns an environment in which the loader uses the StaticLibrary at a
// path, after the auditors that the environment has. It returns env as it is where
// there is no such file.
func WithStatic(env []string, path string) []string {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return env
	}
	const name = "LD_AUDIT="
	all := path
	for _, v := range slices.Backward(env) { // the last one counts
		before, ok := strings.CutPrefix(v, name)
		if !ok {
			continue
		}
		if slices.Contains(strings.Split(before, ":"), path) {
			return env
		}
		if before != "" {
			all = before + ":" + path
		}
		break
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name) })
	return append(env, name+all)
}

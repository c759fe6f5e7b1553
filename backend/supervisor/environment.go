package supervisor

import "strings"

// kept are the names of environment variables that a child gets, and beginnings of names, with a
// star. The environment of the user who starts a guest holds secrets of other programs: what is not here
// stays with the parent. The list has what Go's runtime, the loader, and the drivers of GPUs
// (Mesa, NVIDIA's) read.
var kept = []string{
	"GODEBUG", "GOGC", "GOMAXPROCS", "GOTRACEBACK", "GORACE", "GOCOVERDIR",
	"LD_LIBRARY_PATH", "TZ", "LANG", "LC_*",
	"LIBGL_*", "MESA_*", "GALLIUM_*", "LP_*", "EGL_*", "__EGL_*", "__GL_*", "__GLX_*", "VIRGL_*", "VREND_*", "DRI_PRIME",
	"VK_*", "CUDA_*", "NVIDIA_*",
}

// Environment returns what of an environment a child gets.
func Environment(all []string) (env []string) {
	for _, e := range all {
		name, _, _ := strings.Cut(e, "=")
		for _, k := range kept {
			start, pattern := strings.CutSuffix(k, "*")
			if name == k || pattern && strings.HasPrefix(name, start) {
				env = append(env, e)
				break
			}
		}
	}
	return env
}

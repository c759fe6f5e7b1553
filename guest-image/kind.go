package guestimage

import (
	"fmt"
	"path"
	"strings"
)

// Kinds of images. What a larger one has beside the base image is a row of kinds.
const (
	Base   = "base"   // static programs only
	Debian = "debian" // Debian's C and C++ libraries too, for programs of its suite
)

// kind is what an image has beside the base.
type kind struct {
	name     string
	packages []string          // Debian packages whose files are taken
	keep     func(string) bool // which of them, by path without a leading slash
	dynamic  bool              // programs may need libraries
}

var kinds = []kind{
	{name: Base},
	{name: Debian, dynamic: true, keep: isLibrary,
		packages: []string{"libc6", "libgcc-s1", "libstdc++6", "libgomp1", "zlib1g"}},
}

// Kinds lists the names of all kinds of images.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func kindOf(name string) (kind, error) {
	if name == "" {
		name = Base
	}
	for _, k := range kinds {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("there is no image %q; there are %s", name, strings.Join(Kinds(), " and "))
}

// libDir is where Debian's libraries for x86-64 are, and ours.
const libDir = "lib/x86_64-linux-gnu"

// isLibrary says whether a file is a shared library, or the loader.
func isLibrary(file string) bool {
	dir, name := path.Split(file)
	return (dir == libDir+"/" || dir == "lib64/") && strings.Contains(name, ".so")
}

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
	Mesa   = "mesa"   // Debian's Mesa too: OpenGL on EGL and GBM
	Root   = "root"   // PVDRM's libraries too, for a directory of the host as root file system
)

// OCI begins the kind of an image whose root file system comes from a container image; what follows
// is a reference in a registry, or the path of a directory or an archive. See package oci.
const OCI = "oci:"

// kind is what an image has beside the base.
type kind struct {
	name     string
	packages []string          // Debian packages whose files are taken, and those of what they depend on
	keep     func(string) bool // which of them, by path without a leading slash
	hidden   bool              // no user names it
	oci      string            // the container image that is the root file system; empty without
}

var kinds = []kind{
	{name: Base},
	{name: Debian, keep: isLibrary,
		packages: []string{"libc6", "libgcc-s1", "libstdc++6", "libgomp1", "zlib1g"}},
	{name: Mesa, keep: isGraphics,
		packages: []string{"libstdc++6", "libgomp1", "zlib1g", "libegl1", "libgl1", "libgles2", "libgbm1", "libgl1-mesa-dri", "glmark2-es2-drm", "kmscube"}},
	{name: Root, hidden: true},
}

// disk says whether the image has a second part beside the initramfs: a disk with
// files of Debian packages. Its programs may then need libraries.
func (k kind) disk() bool { return len(k.packages) > 0 }

// dynamic says whether programs of the image may need libraries.
func (k kind) dynamic() bool { return k.disk() || k.ownRoot() }

// ownRoot says whether the image's own files are not the root file system of its programs.
func (k kind) ownRoot() bool { return k.name == Root || k.oci != "" }

// diskModules are the modules with which a guest reads a disk. In older kernels libcrc32c, on
// which erofs depends, asks for crc32c by name when it is loaded.
var diskModules = []string{"virtio_blk", oldCRC32C, "erofs"}

// shareModules are what a guest needs to see directories of the host, one of them as its root below
// a layer of its own. A kernel may lack them: the guest's init complains where they are needed.
var shareModules = []string{"9pnet_virtio", "9p", "overlay"}

// oldCRC32C is a module that Linux no longer has since 6.16.
const oldCRC32C = "crc32c_generic"

// inputModules are what a guest needs to have a keyboard and a pointer, for the programs of a disk.
var inputModules = []string{"virtio_input", "evdev"}

// Kinds lists the names of the kinds of images that users choose among.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		if !k.hidden {
			names = append(names, k.name)
		}
	}
	return names
}

func kindOf(name string) (kind, error) {
	if name == "" {
		name = Base
	}
	if source, ok := strings.CutPrefix(name, OCI); ok && source != "" {
		return kind{name: OCI, hidden: true, oci: source}, nil
	}
	for _, k := range kinds {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("unknown image %q (want %s, or %s and the name of a container image, a directory or an archive)", name, strings.Join(Kinds(), ", "), OCI)
}

// libDir is where Debian's libraries for x86-64 are.
const libDir = "lib/x86_64-linux-gnu"

// isLibrary says whether a file is a shared library, or the loader.
func isLibrary(file string) bool {
	dir, name := path.Split(file)
	return (dir == libDir+"/" || dir == "lib64/") && strings.Contains(name, ".so")
}

// isGraphics says whether a file is a library, a driver of Mesa's or what either
// reads, or a program that draws.
func isGraphics(file string) bool {
	for _, prefix := range []string{
		libDir + "/dri/", libDir + "/gbm/", // the backend of libgbm is a file of its own in Debian 13
		"usr/share/glvnd/", "usr/share/drirc.d/", "usr/share/libdrm/", "usr/share/glmark2/",
		"bin/glmark2", "bin/kmscube",
	} {
		if strings.HasPrefix(file, prefix) {
			return true
		}
	}
	return isLibrary(file)
}

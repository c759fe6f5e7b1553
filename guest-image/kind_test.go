package guestimage

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/guest-image/guestinit"
)

// libraries publishes the packages of the debian image and one more that they
// depend on.
func (a *archive) libraries(t *testing.T) {
	closure := "NOTE: this is only a simulation\nInst libdep (1 Debian:12.0/stable [amd64]) []\nConf libdep (1 Debian:12.0/stable [amd64])\n"
	a.add(t, "libdep", "1", makeDeb(t, ".xz", file{"./usr/lib/x86_64-linux-gnu/libdep.so.1", "a dependency"}))
	for _, name := range kinds[1].packages {
		closure += "Inst " + name + " (1 Debian:12.0/stable [amd64])\n"
		files := []file{{"./usr/share/doc/" + name + "/copyright", "text"}}
		if name == "libc6" {
			files = append(files, file{"./lib/x86_64-linux-gnu/libc.so.6", "the C library"}, file{"./lib64/ld-linux-x86-64.so.2", "the loader"},
				file{"./lib/x86_64-linux-gnu/gconv/UTF-16.so", "not needed"})
		} else {
			files = append(files, file{"./usr/lib/x86_64-linux-gnu/" + name + ".so.1", name})
		}
		a.add(t, name, "1", makeDeb(t, ".xz", files...))
	}
	a.write(t, "closure", closure)
}

func TestDebianImage(t *testing.T) {
	a := newArchive(t)
	base, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.Empty(t, base.Disk)
	a.libraries(t)
	ours := filepath.Join(t.TempDir(), "libcuda.so.1")
	library := bytes.Clone(executable)
	library[16] = 3 // ET_DYN
	require.NoError(t, os.WriteFile(ours, library, 0o644))
	cfg := a.config()
	cfg.Kind, cfg.Libraries = Debian, []string{ours}
	cfg.Programs = append(cfg.Programs, Program{Name: "dynamic", Path: "/bin/sh"})
	image, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEqual(t, base.Key, image.Key)

	disk := readDisk(t, image.Disk)
	require.Equal(t, "the C library", disk["lib/x86_64-linux-gnu/libc.so.6"])
	require.Equal(t, "the loader", disk["lib64/ld-linux-x86-64.so.2"])
	require.Equal(t, "libgomp1", disk["lib/x86_64-linux-gnu/libgomp1.so.1"])
	require.Equal(t, "a dependency", disk["lib/x86_64-linux-gnu/libdep.so.1"])
	for name := range disk {
		require.False(t, strings.Contains(name, "gconv") || strings.Contains(name, "share"), name)
	}
	m := unpack(t, image.Initrd)
	require.Equal(t, "/disk/lib/x86_64-linux-gnu", text(t, m["lib/x86_64-linux-gnu"]))
	require.Equal(t, "/disk/lib64", text(t, m["lib64"]))
	require.Equal(t, "/lib", text(t, m["usr/lib"]))
	require.Equal(t, uint64(unix.S_IFDIR|0o755), m["disk"].Mode)
	require.Equal(t, string(library), text(t, m["lib/libcuda.so.1"]))
	require.Contains(t, text(t, m["lib/modules/order"]), "erofs.ko")

	// Everything is there already, so apt is asked nothing.
	a.asked(t)
	again, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, image, again)
	require.Empty(t, a.asked(t))

	// Another library is another image, on the same disk.
	require.NoError(t, os.WriteFile(ours, append(library, 0), 0o644))
	other, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEqual(t, image.Key, other.Key)
	require.Equal(t, image.Disk, other.Disk)
}

// TestWhatMesaNeeds has one package with a file of each sort.
func TestWhatMesaNeeds(t *testing.T) {
	deb := filepath.Join(t.TempDir(), "x.deb")
	require.NoError(t, os.WriteFile(deb, makeDeb(t, ".gz",
		file{"./usr/bin/kmscube", "draws"}, file{"./usr/bin/other", "does not"},
		file{"./usr/lib/x86_64-linux-gnu/dri/a_dri.so", "drivers"}, file{"./usr/lib/x86_64-linux-gnu/dri/b_dri.so", "=./usr/lib/x86_64-linux-gnu/dri/a_dri.so"},
		file{"./usr/lib/x86_64-linux-gnu/gbm/dri_gbm.so", "a backend"},
		file{"./usr/lib/x86_64-linux-gnu/gstreamer-1.0/x.so", "a plugin"}, file{"./usr/share/glvnd/egl_vendor.d/50_mesa.json", "{}"}), 0o644))
	dir := t.TempDir()
	require.NoError(t, extractTree(deb, dir, isGraphics))
	img := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(img)
	require.NoError(t, err)
	require.NoError(t, writeEROFS(f, dir))
	require.NoError(t, f.Close())
	require.Equal(t, map[string]string{
		"bin/kmscube":                               "draws",
		"lib/x86_64-linux-gnu/dri/a_dri.so":         "drivers",
		"lib/x86_64-linux-gnu/dri/b_dri.so":         "→ a_dri.so",
		"lib/x86_64-linux-gnu/gbm/dri_gbm.so":       "a backend",
		"usr/share/glvnd/egl_vendor.d/50_mesa.json": "{}",
	}, readDisk(t, img))
	links, err := linksTo(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"bin/kmscube", "lib/x86_64-linux-gnu", "usr/share"}, links)
}

func TestWrongKinds(t *testing.T) {
	a := newArchive(t)
	a.libraries(t)
	script := filepath.Join(t.TempDir(), "library.so")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh"), 0o755))
	for want, change := range map[string]func(*Config){
		"unknown image \"gentoo\" (want base, debian, mesa, or oci:": func(c *Config) { c.Kind = "gentoo" },
		"programs of the image \"base\" are static":                  func(c *Config) { c.Libraries = []string{script} },
		"is not an ELF executable":                                   func(c *Config) { c.Kind, c.Libraries = Debian, []string{script} },
		"apt-get would install 0 packages":                           func(c *Config) { c.Kind = Debian; a.write(t, "closure", "") },
		"no such file":                                               func(c *Config) { c.Kind, c.Libraries = Debian, []string{script + "x"} },
		"library.so is not an ELF executable":                        func(c *Config) { c.Kind, c.Stubs = Debian, []string{script} },
	} {
		cfg := a.config()
		change(&cfg)
		_, err := Build(t.Context(), cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestRootPath(t *testing.T) {
	for from, want := range map[string]string{
		"./usr/lib/x86_64-linux-gnu/a.so": "lib/x86_64-linux-gnu/a.so",
		"./lib64/ld.so":                   "lib64/ld.so",
		"./usr/bin/x":                     "bin/x",
		"./usr/share/x":                   "usr/share/x",
		"./../../etc/passwd":              "etc/passwd",
		"/":                               "",
	} {
		require.Equal(t, want, rootPath(from), from)
	}
}

// The image for a directory of the host has PVDRM's libraries and the modules to mount it, and
// nothing of Debian's packages.
func TestRootImage(t *testing.T) {
	a := newArchive(t)
	ours := filepath.Join(t.TempDir(), "libcuda.so.1")
	library := bytes.Clone(executable)
	library[16] = 3 // ET_DYN
	require.NoError(t, os.WriteFile(ours, library, 0o644))
	cfg := a.config()
	cfg.Kind, cfg.Libraries = Root, []string{ours}
	image, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.Empty(t, image.Disk)
	m := unpack(t, image.Initrd)
	require.Equal(t, string(library), text(t, m["lib/libcuda.so.1"]))
	require.Contains(t, text(t, m["lib/modules/order"]), "9pnet_virtio.ko\n9p.ko\n", "this kernel has no overlay")
	require.NotContains(t, Kinds(), Root)
	require.NotContains(t, m, "lib/"+guestinit.StubsDir, "no stubs were asked for")

	// A stub lies apart, where programs find it by the auditor only, and makes another image.
	stub := filepath.Join(t.TempDir(), "libcublas.so.13")
	require.NoError(t, os.WriteFile(stub, library, 0o644))
	cfg.Stubs = []string{stub}
	stubs, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEqual(t, image.Key, stubs.Key)
	m = unpack(t, stubs.Initrd)
	require.Equal(t, uint64(unix.S_IFDIR|0o755), m["lib/cuda-libs"].Mode)
	require.Equal(t, string(library), text(t, m["lib/cuda-libs/libcublas.so.13"]))
	require.Equal(t, string(library), text(t, m["lib/libcuda.so.1"]))
	require.NotContains(t, m, "lib/libcublas.so.13")

	cfg.Kind, cfg.Libraries, cfg.Stubs, cfg.Shares = Base, nil, nil, true
	shares, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.Contains(t, text(t, unpack(t, shares.Initrd)["lib/modules/order"]), "9p.ko\n")
	cfg.Shares = false
	base, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.NotContains(t, text(t, unpack(t, base.Initrd)["lib/modules/order"]), "9p.ko\n")
	require.NotEqual(t, base.Key, shares.Key)
}

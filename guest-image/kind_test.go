package guestimage

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// libraries publishes the packages of the debian image.
func (a *archive) libraries(t *testing.T) {
	for _, name := range kinds[1].packages {
		files := []file{{"./usr/share/doc/" + name + "/copyright", "text"}}
		if name == "libc6" {
			files = append(files, file{"./lib/x86_64-linux-gnu/libc.so.6", "the C library"}, file{"./lib64/ld-linux-x86-64.so.2", "the loader"},
				file{"./lib/x86_64-linux-gnu/gconv/UTF-16.so", "not needed"})
		} else {
			files = append(files, file{"./usr/lib/x86_64-linux-gnu/" + name + ".so.1", name})
		}
		a.add(t, name, "1", makeDeb(t, ".xz", files...))
	}
}

func TestDebianImage(t *testing.T) {
	a := newArchive(t)
	base, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	a.libraries(t)
	ours := filepath.Join(t.TempDir(), "libcuda.so.1")
	library := bytes.Clone(executable)
	library[16] = 3 // ET_DYN
	require.NoError(t, os.WriteFile(ours, library, 0o644))
	cfg := a.config()
	cfg.Kind, cfg.Libraries = Debian, []string{ours}
	image, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEqual(t, base.Key, image.Key)

	m := unpack(t, image.Initrd)
	require.Equal(t, "the C library", text(t, m["lib/x86_64-linux-gnu/libc.so.6"]))
	require.Equal(t, "the loader", text(t, m["lib64/ld-linux-x86-64.so.2"]))
	require.Equal(t, "libgomp1", text(t, m["lib/x86_64-linux-gnu/libgomp1.so.1"]))
	require.Equal(t, string(library), text(t, m["lib/x86_64-linux-gnu/libcuda.so.1"]))
	require.Equal(t, "/lib", text(t, m["usr/lib"]))
	require.Equal(t, uint64(unix.S_IFDIR|0o755), m["lib64"].Mode)
	for name := range m {
		require.False(t, strings.Contains(name, "gconv") || strings.Contains(name, "share"), name)
	}

	// Everything is there already, so apt is asked nothing.
	a.asked(t)
	again, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, image, again)
	require.Empty(t, a.asked(t))

	// Another library is another image.
	require.NoError(t, os.WriteFile(ours, append(library, 0), 0o644))
	other, err := Build(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEqual(t, image.Key, other.Key)
}

func TestWrongKinds(t *testing.T) {
	a := newArchive(t)
	a.libraries(t)
	script := filepath.Join(t.TempDir(), "library.so")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh"), 0o755))
	for want, change := range map[string]func(*Config){
		"there is no image \"gentoo\"; there are base and debian": func(c *Config) { c.Kind = "gentoo" },
		"programs of the image \"base\" are static":               func(c *Config) { c.Libraries = []string{script} },
		"is not an ELF executable":                                func(c *Config) { c.Kind, c.Libraries = Debian, []string{script} },
		"no such file":                                            func(c *Config) { c.Kind, c.Libraries = Debian, []string{script + "x"} },
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
		"./usr/bin/x":                     "usr/bin/x",
		"./../../etc/passwd":              "etc/passwd",
		"/":                               "",
	} {
		require.Equal(t, want, rootPath(from), from)
	}
}

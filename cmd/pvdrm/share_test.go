package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	guestimage "pvdrm/guest-image"
	"pvdrm/vmm"
)

func TestParseShare(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]struct {
		at       string
		writable bool
	}{
		dir:                   {dir, false},
		dir + ":rw":           {dir, true},
		dir + ":/data":        {"/data", false},
		dir + ":/a b/../c:rw": {"/c", true},
	} {
		s, at, err := parseShare(text)
		require.NoError(t, err, text)
		require.Equal(t, want.at, at)
		require.Equal(t, vmm.Share{Dir: dir, Writable: want.writable}, s)
	}
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for text, why := range map[string]string{
		"": "names no directory", ":rw": "names no directory", ":/a": "names no directory",
		file: "no directory", filepath.Join(dir, "none"): "no such file",
		dir + ":a": "absolute path", dir + ":": "absolute path", dir + ":/": "absolute path", dir + ":/../:rw": "absolute path",
	} {
		_, _, err := parseShare(text)
		require.ErrorContains(t, err, why, text)
	}
}

func TestRootOfHost(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	f := shareFlags{root: dir, shares: []string{dir + ":/a b:rw"}}
	var cfg vmm.Config
	require.NoError(t, f.apply(&cfg))
	require.Equal(t, []vmm.Share{{Dir: dir, Tag: "root"}, {Dir: dir, Tag: "share0", Writable: true}}, cfg.Shares)
	require.Equal(t, " pvdrm.root=root pvdrm.share.rw=share0:%2Fa%20b", cfg.Append)

	kind, err := f.image(guestimage.Base)
	require.NoError(t, err)
	require.Equal(t, guestimage.Root, kind)
	_, err = f.image(guestimage.Mesa)
	require.ErrorContains(t, err, "--image")
	require.ErrorContains(t, (&shareFlags{root: filepath.Join(dir, "none")}).apply(&cfg), "--root")

	for file, want := range map[string]string{dir: "/", filepath.Join(dir, "x/y"): "/x/y", filepath.Join(dir, "..x"): "/..x", filepath.Dir(dir): "", dir + "x": ""} {
		got, ok := f.inRoot(file)
		require.Equal(t, want, got, file)
		require.Equal(t, want != "", ok)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "sh"), nil, 0o755))
	for file, want := range map[string]string{"/bin/sh": "/bin/sh", filepath.Join(dir, "bin/sh"): "/bin/sh", "/bin/none": "", "/tmp/x": ""} {
		got, ok := f.program(file)
		require.Equal(t, want, got, file)
		require.Equal(t, want != "", ok)
	}
	for file, want := range map[string]bool{"/tmp": false, "/run/x": false, "/tmpx": true, "/var/tmp": true, "/": true} {
		_, ok := (&shareFlags{root: "/"}).inRoot(file)
		require.Equal(t, want, ok, file)
	}
	_, ok := (&shareFlags{}).inRoot(dir)
	require.False(t, ok, "the guest's root is not the host's")
}

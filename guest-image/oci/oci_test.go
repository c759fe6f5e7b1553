package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/erofs/go-erofs"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// pack returns an archive of the headers; a regular file's content is its Linkname.
func pack(t testing.TB, headers ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		text := ""
		if h.Typeflag == tar.TypeReg {
			text, h.Linkname = h.Linkname, ""
			h.Size = int64(len(text))
		}
		require.NoError(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// sample is an image of two layers: the second removes a file of the first and replaces another.
func sample(t testing.TB) v1.Image {
	var layers []v1.Layer
	for _, text := range [][]byte{
		pack(t,
			tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o750, Uid: 3, Gid: 4},
			tar.Header{Typeflag: tar.TypeReg, Name: "etc/old", Linkname: "old", Mode: 0o644},
			tar.Header{Typeflag: tar.TypeReg, Name: "etc/name", Linkname: "first", Mode: 0o644},
			tar.Header{Typeflag: tar.TypeReg, Name: "bin/tool", Linkname: "#!", Mode: 0o755, Uid: 1, Gid: 2},
			tar.Header{Typeflag: tar.TypeLink, Name: "usr/bin/hard", Linkname: "bin/tool"},
			tar.Header{Typeflag: tar.TypeSymlink, Name: "sbin", Linkname: "/bin"},
			tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Devmajor: 1, Devminor: 3}),
		pack(t,
			tar.Header{Typeflag: tar.TypeReg, Name: "etc/.wh.old", Mode: 0o644},
			tar.Header{Typeflag: tar.TypeReg, Name: "etc/name", Linkname: "second", Mode: 0o600}),
	} {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
		require.NoError(t, err)
		layers = append(layers, l)
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	require.NoError(t, err)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: "amd64",
		RootFS: rootFS(t, img), Config: v1.Config{Env: []string{"PATH=/opt/bin", "A=b c"}, WorkingDir: "work/dir"}})
	require.NoError(t, err)
	return img
}

func rootFS(t testing.TB, img v1.Image) v1.RootFS {
	c, err := img.ConfigFile()
	require.NoError(t, err)
	return c.RootFS
}

// writeLayout makes an OCI layout with an image for the guest's platform and one for another.
func writeLayout(t testing.TB, dir string, img v1.Image) {
	p, err := layout.Write(dir, empty.Index)
	require.NoError(t, err)
	require.NoError(t, p.AppendImage(img, layout.WithPlatform(platform)))
	other, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "arm64"})
	require.NoError(t, err)
	require.NoError(t, p.AppendImage(other, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"})))
}

// archiveOf packs a directory.
func archiveOf(t testing.TB, dir, file string) {
	f, err := os.Create(file)
	require.NoError(t, err)
	w := tar.NewWriter(f)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
}

// Every form that an image comes in gives the same files, the same configuration and the digest
// that names it.
func TestForms(t *testing.T) {
	img, dir := sample(t), t.TempDir()
	writeLayout(t, filepath.Join(dir, "layout"), img)
	archiveOf(t, filepath.Join(dir, "layout"), filepath.Join(dir, "oci.tar"))
	ref, err := name.NewTag("sample:1")
	require.NoError(t, err)
	require.NoError(t, tarball.WriteToFile(filepath.Join(dir, "docker.tar"), ref, img))
	plain, err := os.ReadFile(filepath.Join(dir, "oci.tar"))
	require.NoError(t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(plain)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "oci.tgz"), packed.Bytes(), 0o600))
	server := httptest.NewServer(registry.New())
	defer server.Close()
	inRegistry := strings.TrimPrefix(server.URL, "http://") + "/a/sample:1"
	tag, err := name.ParseReference(inRegistry)
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, img))
	for _, source := range []string{filepath.Join(dir, "layout"), filepath.Join(dir, "oci.tar"), filepath.Join(dir, "oci.tgz"), filepath.Join(dir, "docker.tar"), inRegistry} {
		t.Run(filepath.Base(source), func(t *testing.T) { checkSample(t, source) })
	}
}

func checkSample(t *testing.T, source string) {
	tmp := t.TempDir()
	i, err := Open(t.Context(), source, tmp)
	require.NoError(t, err)
	digest, err := i.Digest()
	require.NoError(t, err)
	require.Len(t, digest, 64)
	c, err := i.Config()
	require.NoError(t, err)
	require.Equal(t, Config{Env: []string{"PATH=/opt/bin", "A=b c"}, Dir: "/work/dir"}, c)
	disk, err := os.Create(filepath.Join(tmp, "disk"))
	require.NoError(t, err)
	defer disk.Close()
	require.NoError(t, i.WriteEROFS(t.Context(), disk))
	files, err := erofs.Open(disk)
	require.NoError(t, err)
	text, err := fs.ReadFile(files, "etc/name")
	require.NoError(t, err)
	require.Equal(t, "second", string(text))
	_, err = fs.Stat(files, "etc/old")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fs.Stat(files, "dev/null")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for file, mode := range map[string]fs.FileMode{"etc": 0o750, "etc/name": 0o600, "bin/tool": 0o755, "usr/bin": 0o755} {
		st, err := fs.Stat(files, file)
		require.NoError(t, err, file)
		require.Equal(t, mode, st.Mode().Perm(), file)
	}
	st, err := fs.Stat(files, "bin/tool")
	require.NoError(t, err)
	owner, ok := st.Sys().(*erofs.Stat)
	require.True(t, ok, "%T", st.Sys())
	require.EqualValues(t, []uint32{1, 2}, []uint32{owner.UID, owner.GID})
	for link, to := range map[string]string{"sbin": "/bin", "usr/bin/hard": "../../bin/tool"} {
		target, err := fs.ReadLink(files, link)
		require.NoError(t, err, link)
		require.Equal(t, to, target)
	}
	require.NoError(t, i.Close())
	left, err := filepath.Glob(filepath.Join(tmp, "oci-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// What an image must not have is refused by name.
func TestHostileFiles(t *testing.T) {
	for name, c := range map[string]struct {
		headers []tar.Header
		want    string
	}{
		"twice":            {[]tar.Header{{Typeflag: tar.TypeReg, Name: "a"}, {Typeflag: tar.TypeReg, Name: "./a"}}, "twice"},
		"below a link":     {[]tar.Header{{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc"}, {Typeflag: tar.TypeReg, Name: "a/b"}}, "no directory"},
		"file and folder":  {[]tar.Header{{Typeflag: tar.TypeReg, Name: "a"}, {Typeflag: tar.TypeDir, Name: "a"}}, "twice"},
		"the root a link":  {[]tar.Header{{Typeflag: tar.TypeSymlink, Name: "/", Linkname: "/etc"}}, "twice"},
		"link to nothing":  {[]tar.Header{{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}}, "does not have"},
		"link to a folder": {[]tar.Header{{Typeflag: tar.TypeDir, Name: "b"}, {Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}}, "does not have"},
		"link to itself":   {[]tar.Header{{Typeflag: tar.TypeLink, Name: "a", Linkname: "a"}}, "itself"},
		"long path":        {[]tar.Header{{Typeflag: tar.TypeReg, Name: strings.Repeat("a/", 3000) + "b", Format: tar.FormatPAX}}, "path"},
	} {
		t.Run(name, func(t *testing.T) {
			disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
			require.NoError(t, err)
			defer disk.Close()
			require.ErrorContains(t, writeEROFS(disk, bytes.NewReader(pack(t, c.headers...))), c.want)
		})
	}
}

// What cannot be opened says what it wants.
func TestNoImage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("no archive", 100)), 0o600))
	for source, want := range map[string]string{
		dir: "--root", file: "tar archive", filepath.Join(dir, "none"): "no file", "./none": "no file", "A B": "no name of an image",
		"127.0.0.1:1/none": "registry",
	} {
		_, err := Open(t.Context(), source, dir)
		require.ErrorContains(t, err, want, source)
	}
	arm, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "arm64"})
	require.NoError(t, err)
	p, err := layout.Write(filepath.Join(dir, "arm"), empty.Index)
	require.NoError(t, err)
	require.NoError(t, p.AppendImage(arm, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"})))
	_, err = Open(t.Context(), filepath.Join(dir, "arm"), dir)
	require.ErrorContains(t, err, "linux/amd64")
	for _, c := range []Config{{Env: []string{"A"}}, {Env: []string{"=a"}}, {Env: make([]string, maxEnv+1)}, {Env: []string{"A=" + strings.Repeat("a", maxEnvBytes)}}, {Dir: strings.Repeat("a", maxPath+1)}} {
		require.Error(t, c.check())
	}
}

// A cancelled context ends the unpacking.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	require.NoError(t, err)
	defer disk.Close()
	require.ErrorIs(t, (&Image{img: sample(t)}).WriteEROFS(ctx, disk), context.Canceled)
}

// No archive makes writeEROFS panic, and what it accepts is a file system that can be walked.
func FuzzFiles(f *testing.F) {
	f.Add(pack(f, tar.Header{Typeflag: tar.TypeReg, Name: "a/b", Linkname: "text"}, tar.Header{Typeflag: tar.TypeLink, Name: "c", Linkname: "a/b"}))
	f.Add(pack(f, tar.Header{Typeflag: tar.TypeDir, Name: "a", Mode: 0o777}, tar.Header{Typeflag: tar.TypeSymlink, Name: "a/../c", Linkname: "../.."}))
	f.Fuzz(func(t *testing.T, text []byte) {
		disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
		require.NoError(t, err)
		defer disk.Close()
		if writeEROFS(disk, bytes.NewReader(text)) != nil {
			return
		}
		files, err := erofs.Open(disk)
		require.NoError(t, err)
		require.NoError(t, fs.WalkDir(files, ".", func(_ string, _ fs.DirEntry, err error) error { return err }))
	})
}

// No file makes Open panic or hang.
func FuzzArchive(f *testing.F) {
	dir := f.TempDir()
	writeLayout(f, filepath.Join(dir, "layout"), sample(f))
	archiveOf(f, filepath.Join(dir, "layout"), filepath.Join(dir, "a.tar"))
	text, err := os.ReadFile(filepath.Join(dir, "a.tar"))
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		file := filepath.Join(dir, "a.tar")
		require.NoError(t, os.WriteFile(file, text, 0o600))
		i, err := Open(t.Context(), file, dir)
		if err != nil {
			return
		}
		defer i.Close()
		_, _ = i.Config() // any answer, but no panic
		disk, err := os.Create(filepath.Join(dir, "disk"))
		require.NoError(t, err)
		defer disk.Close()
		_ = i.WriteEROFS(t.Context(), disk) // likewise
	})
}

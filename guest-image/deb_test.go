package guestimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

// file is one file of a package under test; with content "=NAME" it is a hard link.
type file struct{ name, content string }

// makeDeb returns a Debian package with data compressed as suffix says.
func makeDeb(t *testing.T, suffix string, files ...file) []byte {
	t.Helper()
	var data bytes.Buffer
	var z io.WriteCloser
	switch suffix {
	case ".xz":
		w, err := xz.NewWriter(&data)
		require.NoError(t, err)
		z = w
	case ".gz":
		z = gzip.NewWriter(&data)
	case ".zst":
		w, err := zstd.NewWriter(&data)
		require.NoError(t, err)
		z = w
	default:
		z = nopCloser{&data}
	}
	tw := tar.NewWriter(z)
	for _, f := range files {
		if target, ok := strings.CutPrefix(f.content, "="); ok {
			require.NoError(t, tw.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeLink, Linkname: target, Mode: 0o644, Format: tar.FormatGNU}))
			continue
		}
		require.NoError(t, tw.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content)), Format: tar.FormatGNU}))
		_, err := tw.Write([]byte(f.content))
		require.NoError(t, err)
	}
	require.NoError(t, tw.Close())
	require.NoError(t, z.Close())
	var deb bytes.Buffer
	deb.WriteString(arMagic)
	member := func(name string, b []byte) {
		fmt.Fprintf(&deb, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, 0, 0, 0, 0o100644, len(b))
		deb.Write(b)
		if len(b)%2 != 0 {
			deb.WriteByte('\n')
		}
	}
	member("debian-binary", []byte("2.0\n"))
	member("control.tar.xz", []byte("odd"))
	member("data.tar"+suffix, data.Bytes())
	return deb.Bytes()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestDebData(t *testing.T) {
	for _, suffix := range []string{"", ".gz", ".xz", ".zst"} {
		t.Run("data.tar"+suffix, func(t *testing.T) {
			tr, err := debData(bytes.NewReader(makeDeb(t, suffix, file{"./a", "1"}, file{"./b/c", "two"})))
			require.NoError(t, err)
			var got []file
			for {
				h, err := tr.Next()
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				b, err := io.ReadAll(tr)
				require.NoError(t, err)
				got = append(got, file{h.Name, string(b)})
			}
			require.Equal(t, []file{{"./a", "1"}, {"./b/c", "two"}}, got)
		})
	}
}

func TestDebDataRefuses(t *testing.T) {
	good := makeDeb(t, ".gz", file{"a", "b"})
	noData := bytes.Replace(good, []byte("data.tar"), []byte("dada.tar"), 1)
	for name, tc := range map[string]struct {
		deb  []byte
		want string
	}{
		"empty":               {nil, "no ar magic"},
		"other file":          {[]byte("\x7fELF and so on"), "no ar magic"},
		"no data":             {noData, "no data.tar"},
		"cut in a member":     {good[:70], "debian-binary"},
		"damaged header":      {bytes.Replace(good, []byte("`\n"), []byte("xx"), 1), "damaged ar header"},
		"damaged size":        {bytes.Replace(good, []byte("4         `"), []byte("-4        `"), 1), "damaged ar header"},
		"unknown compression": {bytes.Replace(good, []byte("data.tar.gz"), []byte("data.tar.br"), 1), "not supported"},
		"damaged compression": {bytes.Replace(good, []byte("\x1f\x8b"), []byte("no"), 1), "data.tar.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := debData(bytes.NewReader(tc.deb))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

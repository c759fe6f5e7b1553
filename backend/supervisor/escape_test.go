package supervisor

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"plain, and größer …": "plain, and größer …",
		"a\x1b[2Jb":           `a\x1b[2Jb`,
		"two\nlines\r\t":      `two\nlines\r\t`,
		"c1 \u009b31m":        `c1 \u009b31m`,
		"\u202eesrever\u2066": `\u202eesrever\u2066`,
		"a\u2028b\u00a0c":     `a\u2028b\u00a0c`,
		"\xff\xfebad\xc3":     `\xff\xfebad\xc3`,
		"zero\u200bwidth":     `zero\u200bwidth`,
		"\U000e0041tag":       `\U000e0041tag`,
		`C:\dir`:              `C:\dir`,
		"\ufffd as it is":     "\ufffd as it is",
	} {
		require.Equal(t, want, Escape(text))
	}
}

// requireHarmless checks that a terminal shows a text and does nothing else for it.
func requireHarmless(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), "%q", text)
	for _, r := range text {
		require.True(t, unicode.IsPrint(r), "%q has %U", text, r)
		require.False(t, r >= 0x80 && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r), "%q has %U", text, r)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\x1b[2J\u009b\u202e\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := Escape(text)
		requireHarmless(t, got)
		require.Equal(t, got, Escape(got))
		require.True(t, utf8.ValidString(shorten(got, len(got)/2)))
	})
}

func TestEnvironment(t *testing.T) {
	all := []string{"HOME=/root", "AWS_SECRET_ACCESS_KEY=x", "LD_LIBRARY_PATH=/opt/lib", "LD_PRELOAD=/tmp/x.so", "GODEBUG=a=b",
		"PVDRM_SOCKET=/x", "CUDA_VISIBLE_DEVICES=1", "__EGL_VENDOR_LIBRARY_FILENAMES=f", "NOTIFY_SOCKET=/run/n", "GOMEMLIMIT=1", "TZ=UTC", "TZDIR=/x", "novalue"}
	require.Equal(t, "LD_LIBRARY_PATH=/opt/lib GODEBUG=a=b CUDA_VISIBLE_DEVICES=1 __EGL_VENDOR_LIBRARY_FILENAMES=f TZ=UTC", strings.Join(Environment(all), " "))
}

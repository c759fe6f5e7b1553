package virgl

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenNode(t *testing.T) {
	for path, why := range map[string]string{
		filepath.Join(t.TempDir(), "renderD128"): "no such file or directory",
		"/dev/null":                              "it is no DRM device",
		t.TempDir():                              "is a directory",
	} {
		_, err := openNode(path)
		require.ErrorContains(t, err, "cannot render on "+path+": "+why)
		require.ErrorContains(t, err, "without --render-node")
	}
}

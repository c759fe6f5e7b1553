package guestinit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShareWords(t *testing.T) {
	require.Equal(t, "pvdrm.share=a:%2Fone%20dir", ShareWord("a", "/one dir", false))
	require.Equal(t, "pvdrm.share.rw=b:%2Fx", ShareWord("b", "/x", true))
	require.Equal(t, "t", commandLine{"quiet", "pvdrm.root=t"}.value(RootParameter))
	require.Empty(t, commandLine{"pvdrm.rootless"}.value(RootParameter))
	for _, bad := range []string{ShareParameter + "a", ShareParameter + ":%2Fx", ShareParameter + "a:x", ShareWritable + "a:%zz", ShareParameter + "a:"} {
		require.ErrorContains(t, commandLine{bad}.mountShares(), "names no tag and absolute path", bad)
	}
	require.NoError(t, commandLine{"quiet"}.mountShares())
}

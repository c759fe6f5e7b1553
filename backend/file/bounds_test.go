package file

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gem/quota"
)

// Whatever a guest does, its backend's private memory stays under these figures: docs/security.md.
func TestPrivateBytes(t *testing.T) {
	require.Less(t, PrivateBytes(quota.Limits{}), uint64(1<<30))
	require.Less(t, PrivateBytes(quota.Limits{quota.ModuleText: 1 << 20}), uint64(288<<20))
	for r := range quota.Resources {
		switch r {
		case quota.VRAM, quota.Granted, quota.ModuleImage, quota.Channels, quota.Modules, quota.Queued: // bounded by others, or not private
		default:
			var less quota.Limits
			less[r] = quota.Limits{}.Of(r) / 2
			require.Less(t, PrivateBytes(less), PrivateBytes(quota.Limits{}), "%s is not in the sum", r)
		}
	}
}

// Names of modules are printable and bounded.
func TestModuleName(t *testing.T) {
	require.Equal(t, "a?b?c?", moduleName("a\u009bb\u202ec\u2028"))
	require.Len(t, moduleName(strings.Repeat("x", 5000)), maxModuleName)
	require.Equal(t, "module", moduleName(""))
}

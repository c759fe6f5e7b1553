package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A card is found among a machine's PCI devices by both of its numbers. Memory that is no card's is refused
// with what is wrong.
func TestFindPCI(t *testing.T) {
	root := t.TempDir()
	add := func(slot, vendor, device string) string {
		dir := filepath.Join(root, slot)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "vendor"), []byte(vendor+"\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "device"), []byte(device+"\n"), 0o600))
		return dir
	}
	require.Empty(t, FindPCI(root))
	add("0000:00:00.0", "0x8086", "0x4701")
	add("0000:00:01.0", "0x1234", "0x11e8")
	add("0000:00:02.0", "x", "")
	require.Empty(t, FindPCI(root))
	card := add("0000:00:03.0", "0x1234", "0x4701")
	require.Equal(t, card, FindPCI(root))
	_, err := OpenPCI(card, 0)
	require.ErrorIs(t, err, os.ErrNotExist, "it has no BARs")
	require.ErrorContains(t, err, card)
	for _, bar := range []string{"resource0", "resource1", "resource3", "resource5"} {
		require.NoError(t, os.WriteFile(filepath.Join(card, bar), make([]byte, 4096), 0o600))
	}
	_, err = OpenPCI(card, 0)
	require.ErrorContains(t, err, "BAR5 has 4096 bytes")
}

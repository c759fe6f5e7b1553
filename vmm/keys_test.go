package vmm

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// QEMU knows all names of keys, as it says itself.
func TestKeyNames(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "qemu-system-x86_64", "-M", "none", "-display", "none", "-qmp", "stdio")
	cmd.Stdin = strings.NewReader(`{"execute":"qmp_capabilities"}{"execute":"query-qmp-schema"}{"execute":"quit"}`)
	out, err := cmd.Output()
	require.NoError(t, err)
	var known []string
	for line := range strings.Lines(string(out)) {
		var answer struct {
			Return []struct {
				Meta   string `json:"meta-type"`
				Values []string
			}
		}
		if json.Unmarshal([]byte(line), &answer) != nil {
			continue // the other answers are no lists
		}
		for _, x := range answer.Return {
			if x.Meta == "enum" && slices.Contains(x.Values, "bracket_left") {
				known = x.Values
			}
		}
	}
	require.NotEmpty(t, known)
	named := 0
	for symbol := range uint32(0x10000) {
		if name := qcode(symbol); name != "" {
			require.Contains(t, known, name, "%#x", symbol)
			named++
		}
	}
	require.Greater(t, named, 150)
	require.Equal(t, []string{"a", "a", "7", "7", "kp_7", "kp_7", ""}, []string{qcode('a'), qcode('A'), qcode('7'), qcode('&'), qcode(0xffb7), qcode(0xff95), qcode(0x20ac)})
	require.Len(t, buttonNames, 7, "bits of vnc.Buttons that have a name")
}

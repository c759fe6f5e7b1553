package vmm

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// knownKeys asks QEMU for the names of keys. QEMU may end without having written a long answer
// when the command to quit is there already, so that follows the answer.
func knownKeys(t *testing.T) (known []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "qemu-system-x86_64", "-M", "none", "-display", "none", "-qmp", "stdio")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(stdin, `{"execute":"qmp_capabilities"}{"execute":"query-qmp-schema","id":1}`)
	require.NoError(t, err)
	for answers := json.NewDecoder(stdout); ; {
		var answer struct {
			ID     int
			Return json.RawMessage
		}
		require.NoError(t, answers.Decode(&answer))
		if answer.ID == 0 {
			continue // to the command before
		}
		var schema []struct {
			Meta   string `json:"meta-type"`
			Values []string
		}
		require.NoError(t, json.Unmarshal(answer.Return, &schema))
		for _, x := range schema {
			if x.Meta == "enum" && slices.Contains(x.Values, "bracket_left") {
				known = x.Values
			}
		}
		break
	}
	_, err = io.WriteString(stdin, `{"execute":"quit"}`)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, stdout)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	return known
}

// QEMU knows all names of keys, as it says itself.
func TestKeyNames(t *testing.T) {
	known := knownKeys(t)
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

package guestinit

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/missing"
	"pvdrm/vmm/control"
)

// sends makes this test program send texts and end with a code, as a program of the guest.
const sends = "PVDRM_TEST_SENDS"

func TestMain(m *testing.M) {
	if text := os.Getenv(sends); text != "" {
		missing.FromEnv().Send(text)
		os.Exit(5)
	}
	os.Exit(m.Run())
}

// What a program says that it lacked comes back with its end, that of concurrent ones apart.
func TestMissing(t *testing.T) {
	c := connect(t)
	self, err := os.Executable()
	require.NoError(t, err)
	ends := make(chan control.Exit)
	for _, text := range []string{"cuA: not \x1bthere", "cuB: not there"} {
		go func() {
			var out bytes.Buffer
			exit, err := c.Run(t.Context(), control.Start{Argv: []string{self}, Env: []string{sends + "=" + text}}, control.Streams{Stdout: &out, Stderr: &out})
			if err != nil || out.Len() > 0 {
				exit.Message = out.String()
			}
			ends <- exit
		}()
	}
	require.ElementsMatch(t, []control.Exit{{Code: 5, Missing: []string{"cuA: not there"}}, {Code: 5, Missing: []string{"cuB: not there"}}}, []control.Exit{<-ends, <-ends})
	exit, _, _ := sh(t, c, "test -n \"$PVDRM_MISSING\" && exit 6", nil)
	require.Equal(t, control.Exit{Code: 6}, exit)
}

package tests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/carrier"
	"pvdrm/frontend/carrier/local"
	"pvdrm/gpu/softgpu"
	"pvdrm/tests/hostile"
)

// Each attack of a local guest leaves another of its files as it was, and
// nothing behind in the backend; what startHost checks at the end is part of it.
func TestAttacksOfALocalGuest(t *testing.T) {
	for seed, a := range hostile.Attacks() {
		t.Run(a.Name, func(t *testing.T) {
			h := startHost(t, softgpu.Config{LaunchLimit: 200 * time.Millisecond})
			neighbour := newProgram(t, h.open(t))
			require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr, 16)))
			require.NoError(t, a.Run(func() (carrier.Carrier, error) { return local.Open(h.socket) }, uint64(seed)))
			require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr, 16)))
			for i := range 17 {
				want := uint32(2)
				if i == 16 {
					want = 0
				}
				require.Equal(t, want, neighbour.word(i))
			}
			require.NoError(t, neighbour.Close())
		})
	}
}

// The same from inside of a virtual machine, with the suite running beside them: but for
// those that take all that the guest may have, of which the suite would have its part.
func TestAttacksOfAVirtualMachine(t *testing.T) {
	var beside, alone []string
	for _, a := range hostile.Attacks() {
		switch a.Name {
		case "open-without-end", "take-all-channels", "take-all-memory":
			alone = append(alone, a.Name)
		default:
			beside = append(beside, a.Name)
		}
	}
	require.Len(t, alone, 3)
	program := filepath.Join(t.TempDir(), "hostile")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "pvdrm/tests/hostile/guest")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	g := vmGuestWith(t, 5*time.Second, program) // for which endless kernels hold everything up
	text, code := g.try(t, `gdev run --json --repeat 3 madd cpy srad2 > /tmp/suite & hostile `+strings.Join(beside, " ")+
		`; code=$?; wait; cat /tmp/suite; hostile `+strings.Join(alone, " ")+` && exit $code`)
	t.Log(text)
	require.Zero(t, code)
	for _, a := range hostile.Attacks() {
		require.Contains(t, text, "withstood "+a.Name+"\n")
	}
	require.NotContains(t, text, `"verified":false`)
	require.Contains(t, text, `"bench":"srad2"`)
	require.Contains(t, g.sh(t, "gdev run --json madd"), `"verified":true`)
	require.NoError(t, g.close(), "something of the guest is left")
}

package quota

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Accounts of a guest take and give back at random. What they hold is what the
// guest uses, it never exceeds the limit, and nothing stays when all have ended.
func TestQuotas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var limits Limits
		for r := range limits {
			limits[r] = uint64(rapid.IntRange(1, 20).Draw(t, "limit"))
		}
		var g Set
		g.SetLimits(limits)
		accounts := []*Account{NewAccount(&g), NewAccount(&g), NewAccount(&g)}
		used := func(r Resource) (n uint64) {
			for _, a := range accounts {
				n += a.held[r]
			}
			return n
		}
		refused := [Resources]uint64{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			a := accounts[rapid.IntRange(0, len(accounts)-1).Draw(t, "account")]
			r := Resource(rapid.IntRange(0, int(Resources)-1).Draw(t, "resource"))
			n := uint64(rapid.IntRange(0, 12).Draw(t, "amount"))
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				a.Close()
				require.Equal(t, Amounts{}, a.held)
			case 1, 2, 3:
				a.Discharge(r, min(n, a.held[r]))
			default:
				fits := used(r)+n <= limits[r]
				err := a.Charge(r, n)
				if !fits {
					refused[r]++
					require.ErrorIs(t, err, resources[r].errno)
					break
				}
				require.NoError(t, err)
			}
			for _, q := range g.Stats() {
				r, ok := ByName(q.Resource)
				require.True(t, ok)
				require.Equal(t, used(r), q.Used)
				require.LessOrEqual(t, q.Used, q.Limit)
				require.Equal(t, refused[r], q.Refused)
			}
		}
		for _, a := range accounts {
			a.Close()
		}
		for _, q := range g.Stats() {
			require.Zero(t, q.Used)
		}
	})
}

func TestDefaultLimits(t *testing.T) {
	var g Set
	require.NoError(t, g.Take(Contexts, resources[Contexts].most))
	require.ErrorIs(t, g.Take(Contexts, 1), syscall.EBUSY)
	require.ErrorIs(t, g.Take(VRAM, ^uint64(0)), syscall.ENOMEM, "no overflow")
}

package session

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Sessions of a guest take and give back at random. What they hold is what the
// guest uses, it never exceeds the limit, and nothing stays when all have ended.
func TestQuotas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var limits Limits
		for r := range limits {
			limits[r] = uint64(rapid.IntRange(1, 20).Draw(t, "limit"))
		}
		var g Group
		g.SetLimits(limits)
		sessions := []*Session{{group: &g}, {group: &g}, {group: &g}}
		used := func(r Resource) (n uint64) {
			for _, s := range sessions {
				n += s.held[r]
			}
			return n
		}
		refused := [Resources]uint64{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			s := sessions[rapid.IntRange(0, len(sessions)-1).Draw(t, "session")]
			r := Resource(rapid.IntRange(0, int(Resources)-1).Draw(t, "resource"))
			n := uint64(rapid.IntRange(0, 12).Draw(t, "amount"))
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				s.dischargeAll()
				require.Equal(t, [Resources]uint64{}, s.held)
			case 1, 2, 3:
				s.discharge(r, min(n, s.held[r]))
			default:
				fits := used(r)+n <= limits[r]
				err := s.charge(r, n)
				if !fits {
					refused[r]++
					require.ErrorIs(t, err, resources[r].errno)
					break
				}
				require.NoError(t, err)
			}
			for _, q := range g.quotaStats() {
				r, ok := ResourceByName(q.Resource)
				require.True(t, ok)
				require.Equal(t, used(r), q.Used)
				require.LessOrEqual(t, q.Used, q.Limit)
				require.Equal(t, refused[r], q.Refused)
			}
		}
		for _, s := range sessions {
			s.dischargeAll()
		}
		for _, q := range g.quotaStats() {
			require.Zero(t, q.Used)
		}
	})
}

func TestDefaultLimits(t *testing.T) {
	var g Group
	require.NoError(t, g.Take(Contexts, resources[Contexts].max))
	require.ErrorIs(t, g.Take(Contexts, 1), syscall.EBUSY)
	require.ErrorIs(t, g.Take(VRAM, ^uint64(0)), syscall.ENOMEM, "no overflow")
}

package virtgpu

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// No answer passes a strict one that was there before it, every answer is given
// once, and a hint waits for nothing else.
func TestTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var line timeline
		type command struct {
			m                *moment
			strict, answered bool
		}
		var all []*command
		var open []int
		check := func() {
			blocked := false
			for i, c := range all {
				ended := c.m.answer != nil
				require.Equal(t, ended && !blocked, c.answered, "command %d", i)
				blocked = blocked || c.strict && !c.answered
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				c := &command{m: line.add(), strict: rapid.Bool().Draw(t, "strict")}
				if c.strict {
					line.bind(c.m)
				}
				open = append(open, len(all))
				all = append(all, c)
			},
			"end": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is out")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				c := all[open[i]]
				open = append(open[:i], open[i+1:]...)
				for range 2 { // the second is ignored
					line.end(c.m, func() {
						require.False(t, c.answered)
						c.answered = true
					})
				}
			},
			"": func(*rapid.T) { check() },
		})
	})
}

func TestTimelineReset(t *testing.T) {
	var line timeline
	m := line.add()
	line.bind(m)
	line.reset()
	answered := false
	line.end(line.add(), func() { answered = true })
	require.True(t, answered)
	line.end(m, func() { t.Error("of before the reset") })
}

package hypercall

import (
	"fmt"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// The completion side has one sleeper, the frontend, and two who wake it: the
// session's thread, which publishes completions, and the device's thread, which
// stores points into a channel record. Both take the same flag. Over virtio-gpu
// a third thread serves the control queue, where DoorbellArm brings fences, and
// fences of other processes may signal ours early: all of a guest are on one
// timeline.

// completions is the state of that model. Fences are numbered as they are armed;
// sets of them are bit sets.
type completions struct {
	tail, done, asleep int8 // in the ring

	sent, saw, sessionTook int8 // the session's thread
	point, deviceTook      int8 // the device's thread

	queued, held, signalled uint16 // fences: in the control queue, with the backend, done
	arriving                uint16 // the one that the control thread handles
	bell                    int8   // the eventfd of the local carrier
	armedAsleep             int8   // its register
	early                   int8   // early signals so far

	got, reached int8 // the frontend: completions taken, point seen
	ready        bool
	fence        int8 // the number of its latest fence, from 1

	asked int8 // announcements less wake-ups: the promise is that it never drops below 0
}

func bit(fence int8) uint16 { return 1 << (fence - 1) }

// release signals what the backend holds.
func (s *completions) release() { s.signalled, s.held = s.signalled|s.held, 0 }

// ring counts up the eventfd that the local carrier has instead of fences.
func (s *completions) ring() { s.bell++ }

// sessionSteps publishes n completions.
func sessionSteps(n int8, wake func(*completions)) []step[completions] {
	return []step[completions]{
		{"put", "", func(s *completions) string {
			if s.sent == n {
				return ended
			}
			s.sent++
			return next
		}},
		{"store tail", "Publish: tail.Store", func(s *completions) string { s.tail = s.sent; return next }},
		{"look at the flag", "Publish: asleep.Load", func(s *completions) string { s.saw = s.asleep; return next }},
		{"take the flag", "Publish: asleep.Swap", func(s *completions) string {
			if s.sessionTook = 0; s.saw != 0 {
				s.sessionTook, s.asleep = s.asleep, 0
			}
			return next
		}},
		{"wake", "", func(s *completions) string {
			if s.sessionTook != 0 {
				s.asked--
				wake(s)
			}
			s.saw, s.sessionTook = 0, 0
			return "put"
		}},
	}
}

// deviceSteps stores the points 1 to n.
func deviceSteps(n int8, wake func(*completions)) []step[completions] {
	return []step[completions]{
		{"complete", "", func(s *completions) string {
			if s.point == n {
				return ended
			}
			s.point++
			return next
		}},
		{"store the point", "SetDone: recordAt.Store", func(s *completions) string { s.done = s.point; return next }},
		{"take the flag", "WakeFrontend: offCompletionAsleep.Swap", func(s *completions) string {
			s.deviceTook, s.asleep = s.asleep, 0
			return next
		}},
		{"wake", "", func(s *completions) string {
			if s.deviceTook != 0 {
				s.asked--
				wake(s)
			}
			s.deviceTook = 0
			return "complete"
		}},
	}
}

// controlSteps serves DoorbellArm. A new fence replaces an older one that is
// still held, which its owner no longer waits for (a wait that ran out, or was
// signalled early): so a session occupies one entry of the control queue at most.
func controlSteps() []step[completions] {
	return []step[completions]{
		{"take a doorbell", "", func(s *completions) string {
			if s.queued == 0 {
				return blocked
			}
			s.arriving = s.queued & -s.queued
			s.queued &^= s.arriving
			return next
		}},
		{"hold", "", func(s *completions) string { s.release(); s.held = s.arriving; return next }},
		{"look at the flag", "FrontendAsleep: offCompletionAsleep.Load", func(s *completions) string {
			s.armedAsleep = s.asleep
			return next
		}},
		{"release if it is clear", "", func(s *completions) string {
			if s.armedAsleep == 0 {
				s.release()
			}
			s.armedAsleep, s.arriving = 0, 0
			return "take a doorbell"
		}},
	}
}

// frontendSteps waits for n completions and the point m.
func frontendSteps(n, m int8) []step[completions] {
	return []step[completions]{
		{"get", "Get: tail.Load", func(s *completions) string {
			if s.tail == s.got {
				return "look at the point"
			}
			return next
		}},
		{"give the slots back", "Get: head.Store", func(s *completions) string { s.got++; return "get" }},
		{"look at the point", "Done: recordAt.Load", func(s *completions) string {
			if s.reached = s.done; s.got == n && s.reached == m {
				return ended
			}
			return next
		}},
		{"announce", "Sleep: asleep.Swap", func(s *completions) string {
			s.asked += 1 - s.asleep
			s.asleep = 1
			return next
		}},
		{"look again", "Sleep: Ready", func(s *completions) string { s.ready = s.tail != s.got; return next }},
		{"take it back", "Sleep: asleep.Store", func(s *completions) string {
			if s.ready {
				s.asleep, s.ready = 0, false
				return "get"
			}
			return next
		}},
		{"look at the point again", "Done: recordAt.Load", func(s *completions) string {
			if s.done != s.reached {
				return "awake"
			}
			return next
		}},
		{"arm", "", func(s *completions) string { s.fence++; s.queued |= bit(s.fence); return next }},
		{"sleep", "", func(s *completions) string {
			if s.signalled&bit(s.fence) == 0 {
				return blocked
			}
			return next
		}},
		{"awake", "Awake: asleep.Store", func(s *completions) string { s.asleep = 0; return "get" }},
	}
}

// earlySteps signals what is armed without a reason, n times.
func earlySteps(n int8) []step[completions] {
	return []step[completions]{
		{"signal early", "", func(s *completions) string {
			if s.early == n || s.fence == 0 || s.signalled&bit(s.fence) != 0 {
				return blocked
			}
			s.early++
			s.signalled |= bit(s.fence)
			return "signal early"
		}},
	}
}

type completionThreads struct{ session, device, control, frontend []step[completions] }

func completionModel(p completionThreads, n, m, early int8) *model[completions] {
	threads := []thread[completions]{
		{"session", p.session}, {"device", p.device}, {"control", p.control}, {"frontend", p.frontend}, {"others", earlySteps(early)},
	}
	return &model[completions]{
		threads: threads,
		always: func(s completions) error {
			if s.asked < 0 {
				return errRings
			}
			if bits.OnesCount16(s.held) > 1 {
				return fmt.Errorf("the backend holds the fences %b", s.held)
			}
			return nil
		},
		atEnd: func(s completions) error {
			if s.got != n || s.reached != m {
				return fmt.Errorf("%w: %d of %d completions, point %d of %d", errSleepsForEver, s.got, n, s.reached, m)
			}
			return nil
		},
	}
}

func rightThreads(n, m int8) completionThreads {
	wake := (*completions).release
	return completionThreads{sessionSteps(n, wake), deviceSteps(m, wake), controlSteps(), frontendSteps(n, m)}
}

func TestNoCompletionIsSleptThrough(t *testing.T) {
	for n := int8(0); n <= 2; n++ {
		for m := int8(0); m <= 2; m++ {
			for early := int8(0); early <= 1 && n+m+early < 5; early++ {
				states, err := completionModel(rightThreads(n, m), n, m, early).check()
				require.NoError(t, err)
				t.Logf("%d completions, %d points, %d early signals: %d states", n, m, early, states)
			}
		}
	}
}

// The local carrier has an eventfd instead of fences, and nothing to arm.
func TestNoCompletionIsSleptThroughLocally(t *testing.T) {
	wake := (*completions).ring
	for n := int8(0); n <= 3; n++ {
		for m := int8(0); m <= 3; m++ {
			p := completionThreads{session: sessionSteps(n, wake), device: deviceSteps(m, wake), frontend: frontendSteps(n, m)}
			p.frontend = replaced(p.frontend, "arm", func(*completions) string { return next })
			p.frontend = replaced(p.frontend, "sleep", func(s *completions) string {
				if s.bell == 0 {
					return blocked
				}
				s.bell = 0
				return next
			})
			states, err := completionModel(p, n, m, 0).check()
			require.NoError(t, err)
			t.Logf("%d completions, %d points: %d states", n, m, states)
		}
	}
}

func TestCompletionMutantsAreFound(t *testing.T) {
	const n, m = 2, 2
	for name, mutant := range map[string]struct {
		change func(*completionThreads)
		want   string
	}{
		"the frontend looks again before it announces": {func(p *completionThreads) {
			p.frontend = exchanged(p.frontend, "announce", "look again")
		}, errSleepsForEver.Error()},
		"the frontend does not look at the point again": {func(p *completionThreads) {
			p.frontend = replaced(p.frontend, "look at the point again", func(*completions) string { return next })
		}, errSleepsForEver.Error()},
		"the session publishes after it looked at the flag": {func(p *completionThreads) {
			p.session = exchanged(p.session, "store tail", "look at the flag")
		}, errSleepsForEver.Error()},
		"the device stores the point after it took the flag": {func(p *completionThreads) {
			p.device = exchanged(p.device, "store the point", "take the flag")
		}, errSleepsForEver.Error()},
		"the control thread looks at the flag before it holds": {func(p *completionThreads) {
			p.control = exchanged(p.control, "hold", "look at the flag")
		}, errSleepsForEver.Error()},
		"the control thread never looks": {func(p *completionThreads) {
			p.control = replaced(p.control, "look at the flag", func(s *completions) string { s.armedAsleep = 1; return next })
		}, errSleepsForEver.Error()},
		"the control thread keeps older fences": {func(p *completionThreads) {
			p.control = replaced(p.control, "hold", func(s *completions) string { s.held |= s.arriving; return next })
		}, "holds the fences"},
		"the session takes the flag without an exchange": {func(p *completionThreads) {
			p.session = replaced(p.session, "take the flag", func(s *completions) string {
				if s.sessionTook = s.saw; s.saw != 0 {
					s.asleep = 0
				}
				return next
			})
		}, errRings.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			p := rightThreads(n, m)
			mutant.change(&p)
			_, err := completionModel(p, n, m, 1).check()
			require.ErrorContains(t, err, mutant.want)
			t.Log(err)
		})
	}
}

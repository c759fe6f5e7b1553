package hypercall

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The request side: one producer, one consumer, a doorbell that counts like an
// eventfd. Sequential consistency is what sync/atomic promises, so interleaving
// the atomic operations covers all that can happen; the slots need no steps of
// their own, since only what tail announced is read.

var (
	errSleepsForEver = errors.New("it sleeps for ever with something to do")
	errRings         = errors.New("a doorbell that nobody asked for")
)

// requests is the state of that model.
type requests struct {
	tail, asleep int8 // in the ring
	bell         int8 // the doorbell's count
	put          int8 // the producer's counter
	saw, took    int8 // its registers
	got          int8 // the consumer's counter
	ready        bool // its register

	asked int8 // announcements less doorbells: the promise is that it never drops below 0
}

// producerSteps publishes n messages, one in each multicall.
func producerSteps(n int8) []step[requests] {
	return []step[requests]{
		{"put", "", func(s *requests) string {
			if s.put == n {
				return ended
			}
			s.put++
			return next
		}},
		{"store tail", "Publish: tail.Store", func(s *requests) string { s.tail = s.put; return next }},
		{"look at the flag", "Publish: asleep.Load", func(s *requests) string { s.saw = s.asleep; return next }},
		{"take the flag", "Publish: asleep.Swap", func(s *requests) string {
			if s.took = 0; s.saw != 0 {
				s.took, s.asleep = s.asleep, 0
			}
			return next
		}},
		{"ring", "", func(s *requests) string {
			if s.took != 0 {
				s.bell++
				s.asked--
			}
			s.saw, s.took = 0, 0
			return "put"
		}},
	}
}

// consumerSteps takes messages for ever, and sleeps in between.
func consumerSteps() []step[requests] {
	return []step[requests]{
		{"get", "Get: tail.Load", func(s *requests) string {
			if s.tail == s.got {
				return "announce"
			}
			return next
		}},
		{"give the slots back", "Get: head.Store", func(s *requests) string { s.got++; return "get" }},
		{"announce", "Sleep: asleep.Swap", func(s *requests) string {
			s.asked += 1 - s.asleep
			s.asleep = 1
			return next
		}},
		{"look again", "Sleep: Ready", func(s *requests) string { s.ready = s.tail != s.got; return next }},
		{"take it back", "Sleep: asleep.Store", func(s *requests) string {
			if s.ready {
				s.asleep, s.ready = 0, false
				return "get"
			}
			return next
		}},
		{"sleep", "", func(s *requests) string {
			if s.bell == 0 {
				return blocked
			}
			s.bell = 0
			return next
		}},
		{"awake", "Awake: asleep.Store", func(s *requests) string { s.asleep = 0; return "get" }},
	}
}

func requestModel(n int8, producer, consumer []step[requests]) *model[requests] {
	return &model[requests]{
		threads: []thread[requests]{{"producer", producer}, {"consumer", consumer}},
		always: func(s requests) error {
			if s.asked < 0 {
				return errRings
			}
			return nil
		},
		atEnd: func(s requests) error {
			if s.got != n {
				return fmt.Errorf("%w: %d of %d messages", errSleepsForEver, s.got, n)
			}
			return nil
		},
	}
}

func TestNoRequestIsSleptThrough(t *testing.T) {
	for n := int8(0); n <= 6; n++ {
		states, err := requestModel(n, producerSteps(n), consumerSteps()).check()
		require.NoError(t, err)
		t.Logf("%d messages: %d states", n, states)
	}
}

// The checker finds each of these, so it would find them in the protocol.
func TestRequestMutantsAreFound(t *testing.T) {
	p, c := producerSteps(3), consumerSteps()
	for name, mutant := range map[string]struct {
		producer, consumer []step[requests]
		want               error
	}{
		"the consumer looks again before it announces": {producer: p, consumer: exchanged(c, "announce", "look again"), want: errSleepsForEver},
		"the consumer does not look again": {producer: p, consumer: replaced(c, "look again", func(s *requests) string {
			s.ready = false
			return next
		}), want: errSleepsForEver},
		"the producer publishes after it looked at the flag": {producer: exchanged(p, "store tail", "look at the flag"), consumer: c, want: errSleepsForEver},
		"the producer does not ring":                         {producer: replaced(p, "ring", func(*requests) string { return "put" }), consumer: c, want: errSleepsForEver},
		"the producer rings always": {producer: replaced(p, "take the flag", func(s *requests) string {
			s.took, s.asleep = 1, 0
			return next
		}), consumer: c, want: errRings},
		"the producer leaves the flag set": {producer: replaced(p, "take the flag", func(s *requests) string {
			s.took = s.saw
			return next
		}), consumer: c, want: errRings},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := requestModel(3, mutant.producer, mutant.consumer).check()
			require.ErrorIs(t, err, mutant.want)
			t.Log(err)
		})
	}
}

// A protocol whose consumer spins instead of sleeping is reported as well: the
// checker must not take a cycle for success.
func TestCheckerFindsCycles(t *testing.T) {
	spin := replaced(consumerSteps(), "sleep", func(*requests) string { return next })
	spin = replaced(spin, "announce", func(s *requests) string { s.asleep = 1; return next }) // without the count, which grows
	_, err := requestModel(0, producerSteps(0), spin).check()
	require.ErrorIs(t, err, errWithoutEnd)
}

package gloop

import (
	"cmp"
	"fmt"
)

// throttleSteps are those of size 1.
const throttleSteps = 5000

func prepareThrottle(j *job) (task, error) {
	blocks, threads := cmp.Or(j.Blocks, 1), cmp.Or(j.Threads, 1)
	steps := throttleSteps * j.Size
	chains := make([]uint32, blocks*threads)
	begin := bytesOf(chains)
	state, err := j.upload(begin)
	if err != nil {
		return task{}, err
	}
	work := func() error {
		if err := j.write(state, begin); err != nil {
			return err
		}
		switch {
		case j.Version.loops():
			return j.loop(loopLaunch{kernel: map[bool]string{false: "throttle", true: "throttle_if"}[j.If], blocks: blocks, logical: blocks, threads: threads}, state, uint32(steps))
		case j.Version == Split:
			for range steps {
				if err := j.step("throttle", blocks, threads, state, uint32(1)); err != nil {
					return err
				}
			}
			return nil
		}
		if err := j.launch("throttle", blocks, threads, state, uint32(steps)); err != nil {
			return err
		}
		return j.sync()
	}
	check := func() error {
		got := make([]uint32, len(chains))
		if err := j.read(got, state); err != nil {
			return err
		}
		// The steps of a chain at once: x*a + c, squared and multiplied.
		a, c := uint32(1664525), uint32(1013904223)
		want := uint32(0)
		for n := steps; n > 0; n /= 2 {
			if n%2 == 1 {
				want = want*a + c
			}
			a, c = a*a, c*(a+1)
		}
		for i, x := range got {
			if x != want {
				return fmt.Errorf("chain %d is at %#x after %d steps instead of %#x", i, x, steps, want)
			}
		}
		return nil
	}
	return task{work: work, check: check}, nil
}

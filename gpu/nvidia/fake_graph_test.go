package nvidia

import (
	"os"
	"strconv"
	"strings"
)

// fakeGraph is what was captured on a stream.
type fakeGraph []func() result

// graphs makes the functions for graphs. Graphs and their executable copies have numbers from 1 on.
func (f *fake) graphs(d *driver) {
	var made, ready []fakeGraph
	fails, after, _ := strings.Cut(os.Getenv(FakeGraphsEnv), ":")
	left, _ := strconv.Atoi(after)
	works := func(name string) bool {
		if name != fails {
			return true
		}
		left--
		return left >= 0
	}
	d.streamBeginCapture = func(s uintptr, mode int32) result {
		st := f.stream(s)
		if st.capture != nil || mode != captureRelaxed || !works("capture") {
			return resultInvalidValue
		}
		st.capture = &fakeGraph{}
		return resultOK
	}
	d.streamEndCapture = func(s uintptr, g *uintptr) result {
		st := f.stream(s)
		captured := st.capture
		st.capture = nil
		if captured == nil || !works("captured") {
			return resultInvalidValue
		}
		made = append(made, *captured)
		return set(g, uintptr(len(made)))
	}
	d.graphInstantiate = func(exec *uintptr, g uintptr) result {
		if !works("instantiate") {
			return resultOutOfMemory
		}
		ready = append(ready, made[g-1])
		return set(exec, uintptr(len(ready)))
	}
	d.graphLaunch = func(exec, s uintptr) result {
		switch {
		case ready[exec-1] == nil:
			return resultInvalidValue
		case !works("launch"):
			return resultOutOfMemory
		}
		for _, run := range ready[exec-1] {
			if code := f.enqueue(s, run); code != resultOK {
				return code
			}
		}
		return resultOK
	}
	d.graphDestroy = func(g uintptr) result {
		made[g-1] = nil
		return resultOK
	}
	d.graphExecDestroy = func(exec uintptr) result {
		ready[exec-1] = nil
		return resultOK
	}
}

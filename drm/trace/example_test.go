package trace_test

import (
	"bytes"
	"log"
	"os"
	"syscall"
	"time"

	"pvdrm/drm/trace"
)

// A trace is a list of events; Show prints a line for each. Record makes the events of
// the calls on a drm.File.
func Example() {
	var file bytes.Buffer
	w := trace.NewWriter(&file)
	for _, e := range []trace.Event{
		{Op: trace.OpOpen, Took: 2 * time.Microsecond},
		{Op: trace.OpGemNew, Start: time.Millisecond, Took: time.Microsecond, In: []uint64{4096, 1, 0}, Out: []uint64{7}},
		{Op: trace.OpGemClose, Start: 2 * time.Millisecond, Took: time.Microsecond, Errno: syscall.ENOENT, In: []uint64{8}},
	} {
		if err := w.Write(&e); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
	r, err := trace.NewReader(&file)
	if err != nil {
		log.Fatal(err)
	}
	if err := trace.Show(r, os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0.000 ms    0.002 ms  thread 0  file 0 OPEN()
	//      1.000 ms    0.001 ms  thread 0  file 0 GEM_NEW(size=4096, domain=1, flags=0x0) = handle=7
	//      2.000 ms    0.001 ms  thread 0  file 0 GEM_CLOSE(handle=8) = ENOENT
}

package sched_test

import (
	"fmt"
	"log"
	"time"

	"pvdrm/backend/sched"
)

// A Scheduler has no clock: each event carries the time. Two guests that share an engine
// by BAND, with weights 3 and 1, submit kernels of 1 ms without a pause.
func Example() {
	s, err := sched.New("band", sched.Settings{}, 0)
	if err != nil {
		log.Fatal(err)
	}
	const web, batch = sched.ID(1), sched.ID(2)
	names := map[sched.ID]string{web: "web", batch: "batch"}
	weights := map[sched.ID]uint32{web: 3, batch: 1}
	for _, id := range []sched.ID{web, batch} {
		if err := s.Add(id, sched.Share{Weight: weights[id]}, 0); err != nil {
			log.Fatal(err)
		}
		if err := s.Arrive(id, 0); err != nil {
			log.Fatal(err)
		}
	}
	used := map[string]time.Duration{}
	for now := time.Duration(0); now < 10*time.Second; {
		d := s.Next(now)
		if d.Run == 0 { // the engine stays idle for a moment
			now += d.Again
			continue
		}
		now += time.Millisecond
		used[names[d.Run]] += time.Millisecond
		if err := s.Complete(d.Run, time.Millisecond, 1, true, now); err != nil {
			log.Fatal(err)
		}
	}
	total := used["web"] + used["batch"]
	fmt.Printf("web %d %%, batch %d %%\n", 100*used["web"]/total, 100*used["batch"]/total)
	// Output: web 75 %, batch 25 %
}

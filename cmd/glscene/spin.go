package main

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// atOnce is how many frames are under way at once when nobody looks at them: enough
// for the next one to wait when one ends.
const atOnce = 64

// spin draws frames of a scene until in ends, for pvdrm bench fairness. It prints
// "ready" after the first, and at the end the number of frames that ended from then
// on, and in how many seconds, as gdev spin does of kernels.
func (c *context) spin(frame func(int), in io.Reader, out io.Writer) error {
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = io.Copy(io.Discard, in) // its end is what counts
	}()
	frame(0)
	c.Finish()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	began := time.Now()
	var fences [atOnce]uintptr
	for n := 0; ; n++ {
		select {
		case <-stop:
			c.Finish()
			took := time.Since(began)
			for _, fence := range fences {
				c.egl.DestroySync(c.display, fence) // the first ones may not be there: that is false, and all
			}
			_, err := fmt.Fprintln(out, n, took.Seconds())
			return errors.Join(c.check(), err)
		default:
		}
		fence := &fences[n%atOnce]
		if *fence != 0 {
			if c.egl.ClientWaitSync(c.display, *fence, 0, eglForever) != eglConditionSatisfied {
				return c.failed("eglClientWaitSync")
			}
			c.egl.DestroySync(c.display, *fence)
		}
		frame(n)
		if *fence = c.egl.CreateSync(c.display, eglSyncFence, nil); *fence == 0 {
			return c.failed("eglCreateSync")
		}
		c.Flush()
	}
}

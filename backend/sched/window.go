package sched

import "time"

// buckets is the number of parts of a window. It slides by one part.
const buckets = 32

// window sums times over a sliding window. The zero value with a step set is empty.
type window struct {
	step   time.Duration          // length of a bucket
	newest int64                  // number of the newest bucket: its time divided by step
	used   [buckets]time.Duration // by number modulo buckets
	sum    time.Duration
}

func newWindow(length, now time.Duration) window {
	step := max(length/buckets, 1)
	return window{step: step, newest: int64(now / step)}
}

// slide drops old buckets.
func (w *window) slide(now time.Duration) {
	n := int64(now / w.step)
	if n-w.newest >= buckets {
		w.used, w.sum, w.newest = [buckets]time.Duration{}, 0, n
		return
	}
	for w.newest < n {
		w.newest++
		b := &w.used[w.newest%buckets]
		w.sum -= *b
		*b = 0
	}
}

// add records that d was used between two times. It spreads d evenly between them.
func (w *window) add(d, from, now time.Duration) {
	w.slide(now)
	for n, end := w.newest, now; d > 0 && n >= 0 && w.newest-n < buckets && end > from; n-- {
		start := max(time.Duration(n)*w.step, from)
		part := d
		if start > from {
			part = time.Duration(float64(d) * float64(end-start) / float64(end-from))
		}
		w.used[n%buckets] += part
		w.sum += part
		d -= part
		end = start
	}
}

// total returns the sum within the window that ends now.
func (w *window) total(now time.Duration) time.Duration {
	w.slide(now)
	return w.sum
}

// part returns total as a part of the time that the window covers.
func (w *window) part(now time.Duration) float64 {
	w.slide(now)
	covers := (buckets-1)*w.step + now - time.Duration(w.newest)*w.step
	return float64(w.sum) / float64(covers)
}

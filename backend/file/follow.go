package file

import "pvdrm/gpu"

// ready reports whether all points were reached for which a batch waits.
func (b *batch) ready() bool {
	for _, w := range b.waits {
		if !w.ch.Reached(w.seqno) {
			return false
		}
	}
	return true
}

// follow hands the batch over to the device with the points that were not reached, for which the GPU waits. It
// returns false where the device does not take it so.
func (b *batch) follow() bool {
	ch := b.ch
	dev, ok := ch.dev.(gpu.Follower)
	if !ok || !dev.Follows() || ch.poison != nil || b.invalid != nil || len(b.commands) == 0 {
		return false
	}
	points := make([]gpu.Point, 0, len(b.waits))
	for _, w := range b.waits {
		switch {
		case w.ch.Reached(w.seqno):
		case w.ch == ch: // it is in order anyway
		case w.ch.restored:
			return false
		default:
			points = append(points, gpu.Point{Channel: w.ch.dev, Batch: w.seqno})
		}
	}
	took, err := dev.SubmitBehind(points, b.commands, b.done)
	if err != nil {
		b.f.finish(b, gpu.Result{Err: err})
		return true
	}
	return took
}

package gpu

// Point is a batch of a channel, by its place among those that the channel took: the first is 1.
type Point struct {
	Channel Channel
	Batch   uint64
}

// Follower is a Channel that can have the GPU itself wait for batches of other channels, so that
// what waits begins without the host having seen their end.
type Follower interface {
	// Follows reports whether SubmitBehind may ever take a batch. It does not change.
	Follows() bool
	// SubmitBehind is Submit for a batch that runs when the batches of all points have ended, however
	// they ended. It returns false, and takes nothing, where the GPU cannot wait for one of them, or
	// not yet: where a batch is one that the GPU has not been given, may still be preempted alone, or
	// is of another context. The caller waits for its end then, or asks again. No circle can form,
	// since all points are batches that the GPU already has.
	SubmitBehind(points []Point, cmds []Command, done func(Result)) (bool, error)
}

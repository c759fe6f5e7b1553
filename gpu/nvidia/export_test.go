package nvidia

// ServeFake runs a worker on a driver that is none.
func ServeFake(confine Confine) error { return serveWorker(newFake(), nil, confine) }

// HeldBy begins a comment in a source that the fake's compiler holds.
const HeldBy = heldBy

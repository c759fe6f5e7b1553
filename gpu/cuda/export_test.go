package cuda

// ServeFake runs a worker on a driver that is none.
func ServeFake() error { return serveWorker(newFake(), nil, nil) }

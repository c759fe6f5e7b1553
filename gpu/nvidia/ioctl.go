package nvidia

//go:generate go run ./record -generate testdata/ioctls.txt -o ioctls.go

// Request is a request of ioctl, or several: those of which the bits in Mask are Value.
type Request struct{ Mask, Value uint32 }

// Confine confines a worker for good, once the driver has opened all it needs. Requests are
// what the worker still asks NVIDIA's devices for. Which they are was recorded from the driver,
// in testdata/ioctls.txt: the driver's documentation names none.
type Confine func(requests []Request) error

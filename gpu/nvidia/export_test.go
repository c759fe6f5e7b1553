package nvidia

import (
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// SetLinger changes for how long channels keep an engine that others want while they have nothing to do, without a
// bound on their turns, and returns what changes it back.
func SetLinger(d time.Duration) (back func()) {
	was := lingerTime
	lingerTime = d
	return func() { lingerTime = was }
}

// SetSignalGrace changes for how long a kernel that was asked to end may go on, and returns what changes it back.
func SetSignalGrace(d time.Duration) (back func()) {
	was := signalGrace
	signalGrace = d
	return func() { signalGrace = was }
}

// HeldBy begins a comment in a source that the fake's compiler holds.
const HeldBy = heldBy

// Waiting returns how many workers of a device wait for contexts.
func Waiting(d gpu.Device) int {
	p := d.(*device).pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready)
}

// LaunchOnItsOwn has the worker of a channel do what it could do without its backend if it was taken
// over: it launches a kernel that the channel knows nothing of.
func LaunchOnItsOwn(ch gpu.Channel, l *gpu.Launch) error {
	c := ch.(*channel)
	w, err := c.prepareLaunch(&batch{}, l)
	if err != nil {
		return err
	}
	c.ctx.laneMu.Lock()
	defer c.ctx.laneMu.Unlock()
	c.publish(&w, c.flight.number, 0)
	return nil
}

// What the fake's kernel mark adds to words: for a block of a whole launch, for one of a part, and
// besides for the first block of a launch.
const (
	wholeMark = 0x10000
	partMark  = 0x100

	WholeMark, PartMark = wholeMark, partMark
)

// MarkThreads are the threads of its blocks, and MarkBytes the memory that it is given.
const (
	markThreads = 1024
	markBytes   = 1 << 20

	MarkThreads, MarkBytes = markThreads, markBytes
)

// ExpectBlocks says how long a block of a kernel is expected to take, of those that run side by side.
func ExpectBlocks(f gpu.Function, each time.Duration) {
	f.(*function).pace.Store(int64(each * paceScale))
}

// FakeContextBytes is the VRAM that the fake driver has for a context.
const FakeContextBytes = fakeContextBytes

// FakeGraphsEnv says which of the fake driver's functions for graphs fail: one of "capture", "captured",
// "instantiate" and "launch", a colon, and how often it works before.
const FakeGraphsEnv = "PVDRM_TEST_FAKE_GRAPHS"

// GraphLeast is how many commands a graph has at least.
const GraphLeast = graphLeast

// SetGraphTime changes what graphs may be expected to take, and returns what changes it back.
func SetGraphTime(d time.Duration) (back func()) {
	was := graphTime
	graphTime = d
	return func() { graphTime = was }
}

// FakeFree is what the fake driver has left, and FakeRefusesEnv, if it is set, has it say nothing of that.
const (
	fakeFree = 9 << 20

	FakeFree       = fakeFree
	FakeRefusesEnv = "PVDRM_TEST_FAKE_REFUSES"
)

// SetHand sets how long before the end of what is in flight a channel gives its engine back, and how long after that it is
// stopped, until the function that it returns is called.
func SetHand(before, after time.Duration) func() {
	a, b := handTime, handLimit
	handTime, handLimit = before, after
	return func() { handTime, handLimit = a, b }
}

// Drains reports whether commands that are expected to end after a time are left to end.
func Drains(in time.Duration) bool {
	now := time.Now()
	return expectation{at: now.Add(in)}.drains(now)
}

// Turning returns what is taken off the charge of the first commands of a turn, which took some time and were expected to take
// others, and then of the same ones in a later turn that goes on.
func Turning(took time.Duration, costs ...time.Duration) (first, later time.Duration) {
	f := flight{turned: true, engine: &engine{}}
	for _, c := range costs {
		if c < 0 {
			c = unknown
		}
		f.flying = append(f.flying, &flying{work: work{cost: c}})
	}
	return f.turning(took, len(costs)), f.turning(took, len(costs))
}

// FakeGL has a file stand for the devices of NVIDIA's OpenGL, and a function for the driver; nil leaves that. The
// result undoes both.
func FakeGL(device string, call func(fd int, argument []byte) unix.Errno) (undo func()) {
	devices, driver := glDevices, callRM
	glDevices = regexp.MustCompile("^" + regexp.QuoteMeta(device) + "$")
	if call != nil {
		callRM = func(fd int, _ uint32, argument, _ []byte) unix.Errno { return call(fd, argument) }
	}
	return func() { glDevices, callRM = devices, driver }
}

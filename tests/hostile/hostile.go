// Package hostile attacks a backend from inside a guest, as a program would that
// wants another guest's data or its share of the GPU. The same attacks run in a
// local guest and, by the program in guest/, in a virtual machine.
//
// An attack may be refused, its session may be ended, its GPU context may be
// lost: that is the defense. It returns an error where the backend let it have
// what it must not have, or did not answer. What happens to others meanwhile the
// tests see to.
//
// An attack owns all connections that it opens and closes them; goroutines that
// it starts end before it returns.
package hostile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/frontend"
	"pvdrm/frontend/carrier"
	"pvdrm/hypercall"
)

// Opener connects to the backend: one DRM file each time.
type Opener func() (carrier.Carrier, error)

// Attack is one kind of misuse.
type Attack struct {
	Name string
	run  func(Opener, *rand.Rand) error
}

// Attacks lists them.
func Attacks() []Attack {
	return []Attack{
		{"forge-ids", forgeIDs},
		{"map-foreign-windows", mapForeignWindows},
		{"read-after-free", readAfterFree},
		{"touch-others-memory", touchOthersMemory},
		{"flood-the-ring", floodTheRing},
		{"ring-the-doorbell", ringTheDoorbell},
		{"change-what-was-sent", changeWhatWasSent},
		{"lie-about-the-ring", lieAboutTheRing},
		{"open-without-end", openWithoutEnd},
		{"take-all-channels", takeAllChannels},
		{"take-all-memory", takeAllMemory},
		{"loop-for-ever", loopForEver},
		{"fault-on-the-gpu", faultOnTheGPU},
		{"hang-up", hangUp},
	}
}

// Orders lists what a test runs in an order of its own: HoldTheCompiler in one process
// of a guest while the device holds the module HeldModule, and AllocateBeside in another.
func Orders() []Attack {
	return []Attack{
		{Name: HoldTheCompiler, run: holdTheCompiler},
		{Name: AllocateBeside, run: allocateBeside},
	}
}

// Run runs the attack. The seed decides what is random in it.
func (a Attack) Run(open Opener, seed uint64) error {
	if err := a.run(open, rand.New(rand.NewPCG(seed, 0))); err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

// patience is how long a backend may take to answer, on a busy machine.
const patience = 60 * time.Second

// errGone means that the backend ended the session, which it may.
var errGone = errors.New("the session has ended")

// raw is a session whose ring is driven by hand.
type raw struct {
	carrier.Carrier
	pages *carrier.Pages
	ring  *hypercall.Ring
	req   *hypercall.Producer
	cpl   *hypercall.Consumer
	buf   []byte
	id    uint32
}

func openRaw(open Opener) (*raw, error) { return openRing(open, hypercall.DefaultLayout) }

// openRing opens a session with a ring of a layout.
func openRing(open Opener, layout hypercall.Layout) (*raw, error) {
	c, err := open()
	if err != nil {
		return nil, err
	}
	r := &raw{Carrier: c, buf: make([]byte, hypercall.MaxMessage)}
	r.pages, err = c.Alloc(layout.Bytes())
	if err == nil {
		r.ring, err = hypercall.New(r.pages.Mem, layout)
	}
	if err == nil {
		err = c.Attach(r.pages, hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: r.pages.ID, Layout: layout})
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	r.req, r.cpl = r.ring.Requests(), r.ring.Completions()
	return r, nil
}

// withRaw runs an attack on one session.
func withRaw(open Opener, do func(*raw) error) error {
	r, err := openRaw(open)
	if err != nil {
		return err
	}
	if err = do(r); errors.Is(err, errGone) {
		err = nil
	}
	return errors.Join(err, r.end())
}

// end closes the session. A mapping would keep the file open.
func (r *raw) end() error {
	err := unix.Munmap(r.pages.Mem)
	_ = r.Close() // the backend may have hung up first
	return err
}

// kick wakes the backend; where it has hung up it returns errGone.
func (r *raw) kick() error {
	if err := r.Kick(); err != nil {
		return errGone
	}
	return nil
}

// ask sends a request and waits for the answer.
func (r *raw) ask(op hypercall.Op, payload []byte) (syscall.Errno, error) {
	if err := r.send(op, payload); err != nil {
		return 0, err
	}
	return r.answer()
}

// send sends a request.
func (r *raw) send(op hypercall.Op, payload []byte) error {
	r.id++
	ok, err := r.req.Put(hypercall.Header{Op: op, ID: r.id, Flags: hypercall.FlagAnswer}, payload)
	if err != nil || !ok {
		return fmt.Errorf("no room for a request: %w", errors.Join(err, errGone))
	}
	if r.req.Publish() {
		return r.kick()
	}
	return nil
}

// answer waits for the answer to the last request.
func (r *raw) answer() (syscall.Errno, error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Microsecond) {
		h, _, ok, err := r.cpl.Get(r.buf)
		switch {
		case err != nil:
			return 0, errGone
		case ok && h.ID == r.id:
			return syscall.Errno(h.Errno), nil
		case r.ring.State() == hypercall.StateEnded:
			return 0, errGone
		}
	}
	return 0, fmt.Errorf("request %d is not answered within %v", r.id, patience)
}

// refused asks for what must not be granted.
func (r *raw) refused(op hypercall.Op, payload []byte) error {
	errno, err := r.ask(op, payload)
	if err == nil && errno == 0 {
		err = fmt.Errorf("%v with % x was granted", op, payload)
	}
	return err
}

// withFile runs an attack through the driver's own calls.
func withFile(open Opener, do func(*frontend.File) error) error {
	c, err := open()
	if err != nil {
		return err
	}
	f, err := frontend.New(c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	err = do(f)
	return errors.Join(err, f.Close())
}

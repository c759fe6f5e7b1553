package nvidia

import (
	gocontext "context"
	"errors"
	"fmt"
)

// compiler compiles PTX in a worker of its own, which holds no state of a guest: killing
// that worker stops a compilation, and contexts and their commands never wait for one. It
// compiles one source at a time. A device has one compiler.
//
// The worker starts with the device, and again after it has ended. Its answers are trusted
// no more than the source that it compiled.
type compiler struct {
	keeper keeper
	turn   chan struct{} // holds a token while the worker is used or started

	// The holder of the token owns these.
	worker *process // nil while there is none
	err    error    // the reason why there is none
}

func newCompiler(k keeper) *compiler {
	return &compiler{keeper: k, turn: make(chan struct{}, 1)}
}

// prepare starts the worker unless there is one, without waiting for it.
func (c *compiler) prepare() {
	select {
	case c.turn <- struct{}{}:
		if c.worker == nil {
			go c.start()
			return
		}
		<-c.turn
	default: // another goroutine uses or starts it
	}
}

// start starts the worker, and releases the turn.
func (c *compiler) start() {
	c.worker, c.err = c.keeper.startCompiler()
	<-c.turn
}

// replace starts a worker in place of an unusable one, and releases the turn.
func (c *compiler) replace(old *process) {
	old.end()
	c.start()
}

// compile compiles PTX to machine code of the GPU, of at most most bytes. When ctx ends
// first, compile stops the compilation and returns the cause.
func (c *compiler) compile(ctx gocontext.Context, source []byte, most int) ([]byte, error) {
	p, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	killed := make(chan struct{})
	stop := gocontext.AfterFunc(ctx, func() {
		p.Kill()
		p.link.shutdown() // the driver takes some 50 ms to end a process
		close(killed)
	})
	var r reply
	err = p.do(&request{Op: opCompile, Image: source, Most: most}, nil, &r)
	ended := !stop()
	if ended {
		<-killed // it uses the process's descriptor
	}
	refusal, refused := errors.AsType[*driverError](err)
	usable := !ended && (err == nil || refused && !refusal.Code.sticky())
	if usable {
		c.release()
	} else {
		c.worker = nil
		go c.replace(p)
	}
	switch {
	case ended && err != nil:
		return nil, gocontext.Cause(ctx)
	case refused:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the driver's compiler ended while it worked on this: %w", err)
	case len(r.Image) == 0 || len(r.Image) > most:
		return nil, errAnswer
	}
	return r.Image, nil
}

// acquire waits for its turn and until a worker has started.
func (c *compiler) acquire(ctx gocontext.Context) (*process, error) {
	for started := false; ; started = true {
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, gocontext.Cause(ctx)
		}
		switch {
		case ctx.Err() != nil:
			c.release()
			return nil, gocontext.Cause(ctx)
		case c.worker != nil && !c.worker.Over():
			return c.worker, nil
		case c.worker != nil: // another process killed it while it was idle
			old := c.worker
			c.worker = nil
			go c.replace(old)
		case started:
			err := c.err
			c.release()
			return nil, fmt.Errorf("the driver's compiler does not start: %w", err)
		default:
			go c.start()
		}
	}
}

// release releases the turn.
func (c *compiler) release() { <-c.turn }

// close ends the worker. Preconditions: the keeper has ended, and no call of compile is
// in progress.
func (c *compiler) close() {
	c.turn <- struct{}{} // and never release it
	if c.worker != nil {
		<-c.worker.Gone() // with its keeper
		c.worker.discard()
		c.worker = nil
	}
}

var errAnswer = errors.New("the CUDA worker gave a wrong answer")

// Bounds on the machine code of a source, which lie within gpu.ModuleMemory. The machine
// code of real modules is a fraction of the source; unrolled loops make it larger.
const (
	imageBase  = 256 << 10
	imageRatio = 16
	maxImage   = 32 << 20
)

// imageBytes returns the bound on the machine code of a source of so many bytes.
func imageBytes(source int) int { return min(imageBase+imageRatio*source, maxImage) }

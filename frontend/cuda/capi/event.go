package capi

import (
	"time"

	"pvdrm/frontend/cuda"
)

// event is a CUevent.
type event struct {
	*cuda.Event
	ctx   *context
	timed bool
}

func (e *event) owner() *context { return e.ctx }

// Flags of cuEventCreate.
const (
	eventDisableTiming = 2
	eventInterprocess  = 4
	eventFlags         = 7
)

func (c *call) event(i int) (*event, error) {
	e, ok := find[*event](c.lib, c.u64(i))
	if !ok {
		return nil, c.unknown(cuda.ErrInvalidHandle, "event", c.u64(i))
	}
	return e, nil
}

func eventCreate(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	flags := c.u32(1)
	if flags&^eventFlags != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", flags)
	}
	if flags&eventInterprocess != 0 && flags&eventDisableTiming == 0 {
		return c.fail(cuda.ErrInvalidValue, "an event for other processes has no time")
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	create := x.NewEvent
	if flags&eventInterprocess != 0 {
		create = x.NewSharedEvent
	}
	e, err := create()
	if err != nil {
		return err
	}
	return to.set(c.lib.handles.add(&event{e, x, flags&eventDisableTiming == 0}))
}

func eventDestroy(c *call) error {
	e, err := c.event(0)
	if err != nil {
		return err
	}
	c.lib.handles.remove(c.u64(0))
	return e.Destroy()
}

func eventRecord(c *call) error {
	e, err := c.event(0)
	if err != nil {
		return err
	}
	s, err := c.streamWith(e.ctx, c.u64(1))
	if err != nil {
		return err
	}
	return c.settle(e.ctx, s, func() error { return e.Record(s) })
}

// eventExternal is CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL.
const eventExternal = 1

// eventFlags checks the flags in argument i. The only one is for streams that are captured.
func (c *call) eventFlags(i int) error {
	if c.u32(i) == eventExternal {
		return c.fail(illegalState, "the stream is not captured")
	}
	return c.noFlags(i)
}

// eventRecordFlags gets (event, stream, flags).
func eventRecordFlags(c *call) error {
	if err := c.eventFlags(2); err != nil {
		return err
	}
	return eventRecord(c)
}

func eventSynchronize(c *call) error {
	e, err := c.event(0)
	if err != nil {
		return err
	}
	return e.Synchronize()
}

func eventQuery(c *call) error {
	e, err := c.event(0)
	if err != nil {
		return err
	}
	return e.Query()
}

func eventElapsedTime(c *call) error {
	if c.u64(0) == 0 {
		return c.fail(cuda.ErrInvalidHandle, "no place for the time") // as NVIDIA's driver answers
	}
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	start, err := c.event(1)
	if err != nil {
		return err
	}
	end, err := c.event(2)
	if err != nil {
		return err
	}
	if !start.timed || !end.timed {
		return c.fail(cuda.ErrInvalidHandle, "an event was made with CU_EVENT_DISABLE_TIMING")
	}
	d, err := end.Elapsed(start.Event)
	if err != nil {
		return err
	}
	return to.setFloat(float32(float64(d) / float64(time.Millisecond)))
}

func streamWaitEvent(c *call) error {
	if err := c.eventFlags(2); err != nil {
		return err
	}
	x, s, err := c.stream(0)
	if err != nil {
		return err
	}
	e, err := c.event(1)
	if err != nil {
		return err
	}
	if e.ctx == x {
		return c.settle(x, s, func() error { return s.WaitEvent(e.Event) })
	}
	// What comes later on the stream waits in the program.
	wait, err := e.Recorded()
	if err != nil {
		return err
	}
	x.afterHostFunctions(s, func() { _ = wait() }) // the other context keeps its error
	return nil
}

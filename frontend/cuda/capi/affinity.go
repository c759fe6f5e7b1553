package capi

import (
	"pvdrm/frontend/cuda"
)

// affinityMultiprocessors is CU_EXEC_AFFINITY_TYPE_SM_COUNT.
const affinityMultiprocessors = 0

// deviceGetExecAffinitySupport gets (supported, kind, device). As on an H100, no kind is supported.
func deviceGetExecAffinitySupport(c *call) error {
	to, _, err := c.outAndDevice(0, 4, 2)
	if err != nil {
		return err
	}
	return to.set(0)
}

// ctxGetExecAffinity gets (CUexecAffinityParam, kind): a context has all multiprocessors.
func ctxGetExecAffinity(c *call) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	if c.u32(1) != affinityMultiprocessors {
		return c.fail(unsupportedAffinity, "affinity of kind %d", c.u32(1))
	}
	n, _ := attribute(x.Device(), int(cuda.AttributeMultiprocessorCount))
	return to.set(affinityMultiprocessors | uint64(n)<<32)
}

// deviceGetTexture1DLinearMaxWidth gets (elements, format, channels, device).
func deviceGetTexture1DLinearMaxWidth(c *call) error {
	to, dev, err := c.outAndDevice(0, 8, 3)
	if err != nil {
		return err
	}
	f, known := formatOf[c.u32(1)]
	if n := c.u32(2); !known || n != 1 && n != 2 && n != 4 {
		return c.fail(cuda.ErrInvalidValue, "%d channels of format %d", n, c.u32(1))
	}
	most, _ := attribute(dev, attrLinearWidth)
	return to.set(min(uint64(most), 1<<32/uint64(f.Size())/uint64(c.u32(2))))
}

// atomicOperations lists CUatomicOperation.
const atomicOperations = 13

// deviceGetHostAtomicCapabilities gets (capabilities, operations, count, device). As an H100, the device has none
// on memory of the host.
func deviceGetHostAtomicCapabilities(c *call) error {
	if _, err := c.device(3); err != nil {
		return err
	}
	n := c.u32(2)
	if n == 0 || n > atomicOperations {
		return c.fail(cuda.ErrInvalidValue, "%d operations", n)
	}
	to, err := c.out(0, int(4*n))
	if err != nil {
		return err
	}
	operations, err := c.read(c.u64(1), int(4*n))
	if err != nil {
		return err
	}
	for i := range n {
		if op := le32(operations[4*i:]); op >= atomicOperations {
			return c.fail(cuda.ErrInvalidValue, "operation %d", op)
		}
	}
	return to.write(make([]byte, 4*n))
}

// contextAndEvent finds the context in argument 0 and the event in argument 1.
func (c *call) contextAndEvent() (*context, *event, error) {
	x, ok := find[*context](c.lib, c.u64(0))
	if !ok {
		return nil, nil, c.unknown(invalidContext, "context", c.u64(0))
	}
	e, err := c.event(1)
	return x, e, err
}

// ctxRecordEvent gets (context, event). It waits for the work of the context that the event stands for.
func ctxRecordEvent(c *call) error {
	x, e, err := c.contextAndEvent()
	if err != nil {
		return err
	}
	if e.ctx != x {
		return c.fail(cuda.ErrInvalidHandle, "the event is of another context")
	}
	if err := c.synchronize(x); err != nil {
		return err
	}
	return e.Record(x.DefaultStream())
}

// ctxWaitEvent gets (context, event). Later work of the context comes behind the event, because the call waits for it.
func ctxWaitEvent(c *call) error {
	_, e, err := c.contextAndEvent()
	if err != nil {
		return err
	}
	return e.Synchronize()
}

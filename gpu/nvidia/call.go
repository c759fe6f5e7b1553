package nvidia

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/internal/cudalibs"
	"pvdrm/internal/cudalibs/host"
)

// callee is a library function as a context knows it.
type callee struct {
	index uint32
	cost  atomic.Int64 // what a call took the last time, ns; 0: none has ended
}

// maxCallees bounds the functions of which a context knows what they take.
const maxCallees = 4096

// name is the function's, for messages.
func (c *callee) name() string {
	if f := cudalibs.All().Function(c.index); f != nil {
		return f.Name
	}
	return fmt.Sprintf("library function %d", c.index)
}

// callee finds a function.
func (c *context) callee(index uint32) *callee {
	c.calleesMu.Lock()
	defer c.calleesMu.Unlock()
	if c.callees == nil {
		c.callees = map[uint32]*callee{}
	}
	f := c.callees[index]
	if f == nil {
		f = &callee{index: index}
		if len(c.callees) < maxCallees {
			c.callees[index] = f
		}
	}
	return f
}

// prepareCall checks where a call has its arguments and its results. What they are is for the
// worker to judge, which is the guest's own.
func (c *channel) prepareCall(b *batch, cmd *gpu.Call) (w work, err error) {
	if err := check.Call(&c.ctx.dev.props, cmd); err != nil {
		return w, err
	}
	if b.task {
		return w, fmt.Errorf("%w: a task calls no libraries: they have state in a worker, of which another has none", gpu.ErrInvalid)
	}
	n := uint64(len(cmd.Args))
	if cmd.ArgsVA != 0 {
		n = uint64(cmd.ArgsBytes)
		if err := c.whole(cmd.ArgsVA, n, false); err != nil {
			return w, err
		}
	}
	if cmd.Bytes > 0 {
		if err := c.whole(cmd.Results, uint64(cmd.Bytes), true); err != nil {
			return w, err
		}
	}
	if c.ctx.dev.config.Replays {
		c.ctx.transient("a library of the host was called, which has state in its worker")
	}
	w.params, w.call = cmd.Args, c.ctx.callee(cmd.Function)
	err = w.add(entry{kind: entryCall, words: [7]uint64{cmd.ArgsVA, n, cmd.Results, uint64(cmd.Bytes)}}, 0)
	if w.cost = time.Duration(w.call.cost.Load()); w.cost <= 0 || w.cost > unknown {
		w.cost = unknown
	}
	return w, err
}

// inGraphs reports whether the driver can capture the calls of a batch, and what it has captured does at each
// launch what the calls would do then: they only queue work, which reads nothing of the host's memory later.
func inGraphs(cmd *gpu.Call) bool {
	if cmd.ArgsVA != 0 || cmd.Bytes > cudalibs.ResultHead || len(cmd.Args) <= cudalibs.BatchHead {
		return false
	}
	for rest := cmd.Args[cudalibs.BatchHead:]; len(rest) > 0; {
		f, _, more, err := cudalibs.Split(rest)
		if err != nil || !queuesOnly(f) {
			return false
		}
		rest = more
	}
	return true
}

// queuesOnly reports whether a function only queues work of kernels. Those of cuRAND change their generator, those of
// NCCL wait for other processes, and those of cuSOLVER and cuSPARSE copy from the host's memory.
func queuesOnly(f *cudalibs.Function) bool {
	switch f.Library.Name {
	case "cublas", "cublasLt", "cudnn", "cufft":
	default:
		return false
	}
	for _, p := range f.Params {
		switch p.Class {
		case cudalibs.Int32, cudalibs.Int64, cudalibs.Float, cudalibs.Double, cudalibs.Device, cudalibs.Scalar, cudalibs.Stream, cudalibs.Null, cudalibs.Use:
		case cudalibs.In: // an algorithm, which it reads at once
			if f.Library.Name != "cublasLt" {
				return false
			}
		default:
			return false
		}
	}
	return f.Mode == cudalibs.Async
}

// whole checks that a range is granted memory, which the worker's processor reaches, in one mapping.
func (c *channel) whole(va, n uint64, write bool) error {
	if !c.ctx.dev.props.System.Contains(va, n) {
		return fmt.Errorf("%w: a call with %d bytes at 0x%x, which is not granted memory", gpu.ErrInvalid, n, va)
	}
	got, fault := c.ctx.space.reach(va, n, write)
	if fault != nil {
		return fault
	}
	if got < n {
		return fmt.Errorf("%w: a call with %d bytes at 0x%x, of which one mapping has %d", gpu.ErrInvalid, n, va, got)
	}
	return nil
}

// openLibraries opens the libraries of the host for a worker, at the same time as its driver starts.
func openLibraries(where string) <-chan *host.Libraries {
	opened := make(chan *host.Libraries, 1)
	if where == host.None {
		opened <- nil
		return opened
	}
	go func() { opened <- host.Open(host.Directories(where)) }()
	return opened
}

// takeLibraries makes the machine that calls them, and has them start. The worker has its CUDA context, and
// is not confined yet.
func (w *worker) takeLibraries(l *host.Libraries, p *gpu.Properties) error {
	if l == nil || l.Mask() == 0 {
		return nil
	}
	m, err := host.NewMachine(l, w.quiet)
	if err != nil {
		return err
	}
	w.path.machine = m
	return w.checkLibraries(l, p, m.Warm)
}

// checkLibraries looks which libraries work.
func (w *worker) checkLibraries(l *host.Libraries, p *gpu.Properties, check func() error) error {
	before := l.Mask()
	if err := check(); err != nil {
		return err
	}
	if l.Mask() != before {
		fmt.Fprintf(os.Stderr, "pvdrm: CUDA libraries that guests cannot call:\n%s\n", l.Missing())
	}
	p.Libraries = l.Mask()
	return nil
}

// call calls functions of libraries. What they return is for the guest: only a driver that fails is a
// failure here.
func (p *path) call(a *[7]uint64, params []byte, stream uintptr) result {
	if p.machine == nil {
		return resultInvalidValue
	}
	batch := params[:min(a[1], uint64(len(params)))]
	if a[0] != 0 {
		batch = bytesAt(a[0], a[1]) // the backend has checked that it is mapped
	}
	var results []byte
	if a[3] != 0 {
		results = bytesAt(a[2], a[3]) // likewise
	}
	if p.capturing { // what it returns, it has told when it was called before
		results = make([]byte, cudalibs.ResultHead)
	}
	if o := p.machine.Run(batch, results, uint64(stream)); p.capturing && o.Bad() {
		return resultInvalidValue
	}
	return resultOK
}

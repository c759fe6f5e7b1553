package exec

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/exec/lower"
	"pvdrm/gpu/softgpu/exec/run"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Windows of the generic address space that the engine backs itself. They lie
// above all windows of a device, whose addresses are below 1<<48.
const (
	SharedBase = tlb.SharedBase // .shared of the running block, from its first byte
	LocalBase  = tlb.LocalBase  // .local of the running thread
	ParamBase  = tlb.ParamBase  // parameters of the running kernel, read only
	GridBase   = tlb.GridBase   // workspace of a cooperative launch
	WindowSize = tlb.WindowSize // bytes reserved from each base

	ClusterShift = tlb.ClusterShift // where addresses in .shared have the rank of their block in its cluster
)

// What a device uses of the stages.
type (
	Space     = tlb.Space     // the address space a kernel runs in
	Program   = run.Program   // a module, decoded
	Kernel    = run.Kernel    // an .entry function of a Program
	Limits    = run.Limits    // what a device allows one block
	Launch    = run.Launch    // one run of a kernel
	Control   = run.Control   // reaches a kernel while it runs
	State     = run.State     // what a preempted launch has still to do
	Tree      = run.Tree      // the launches that kernels make
	Waiting   = run.Waiting   // counts what they take, for a device
	Pending   = run.Pending   // one of them
	Preempted = run.Preempted // the error of a launch that was preempted
	Model     = ir.Model      // the time of a launch, modelled
	Native    = jit.Native    // when a kernel is compiled to native code

	Interpreted = run.Interpreted // what of a kernel is not compiled
	Tally       = run.Tally       // counts what ran compiled, and why not
	Tallied     = run.Tallied     // of one kernel
	Line        = run.Line        // of its source
	Cause       = jit.Cause       // why an instruction was interpreted
)

// When a kernel is compiled. Results do not depend on it.
const (
	NativeHot    = jit.NativeHot
	NativeAtOnce = jit.NativeAtOnce
	NativeNever  = jit.NativeNever
)

// CauseOperation is the cause of operations that native code has no form of.
const CauseOperation = jit.Operation

// DefaultLimits are those of a device of compute capability 7.0 with a stack
// of 32 KiB.
func DefaultLimits() Limits { return run.DefaultLimits() }

// NewTree makes a tree whose launches count for w, until its Release.
func NewTree(w *Waiting) *Tree { return run.NewTree(w) }

// NewModel makes a model of a device with so many multiprocessors, for one launch.
func NewModel(sms int, limit uint64) *Model { return ir.NewModel(sms, limit) }

// NativeCode reports whether kernels are compiled on this machine; the error says why
// they are interpreted.
func NativeCode() error { return jit.NativeCode() }

// CompilerFailures returns how often the compiler to native code has failed in this process. What it failed on is
// interpreted, with the same results.
func CompilerFailures() uint64 { return jit.Failures() }

// OnCompilerFailure makes the process call f whenever the compiler fails, from any goroutine, with the name of the
// function, which is a guest's, and with what went wrong and where. Nil stands for none.
func OnCompilerFailure(f func(function, fault string)) { jit.OnFailure(f) }

// Run runs a kernel to its end on the given number of workers (at least one).
// Errors are gpu.ErrInvalid, wrapped, for a launch that is not possible, and
// *gpu.LostError for a fault or after Control.Stop; memory that the kernel has
// written by then keeps what was written.
func Run(k *Kernel, l Launch, s Space, c *Control, workers int) error {
	return run.Run(k, l, s, c, workers)
}

// Compile decodes a module that ptx.Verify has accepted. The error is a
// *gpu.BuildError that names what the engine does not run and where it stands.
func Compile(m *ptx.Module) (*Program, error) { return CompileWithin(nil, m, false) }

// CompileTimed is Compile for launches with a Model. The program is slower.
func CompileTimed(m *ptx.Module) (*Program, error) { return CompileWithin(nil, m, true) }

// CompileWithin is Compile, or CompileTimed, within an effort, the one that reading the module
// began: the error may also be the effort's. The program refers to nothing of the module
// once it is linked.
func CompileWithin(e *ptx.Effort, m *ptx.Module, timed bool) (*Program, error) {
	p, err := lower.Module(e, m, timed)
	if err != nil {
		return nil, err
	}
	return run.NewProgram(p), nil
}

// Runs returns nil if the engine executes instructions of a row of PTX's table, else why not.
func Runs(f *ptx.Form) error { return lower.Runs(f) }

// Runnable reports the instructions, variables and directives of a verified module that the
// engine does not run. The error is a *gpu.BuildError with at most ptx.MaxDiagnostics complaints.
func Runnable(m *ptx.Module) error { return lower.Runnable(m) }

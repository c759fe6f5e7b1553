package file

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// Load is a module whose source is being sent, or that is being compiled. It goes through these
// states. A file has only one in the first three, and what it will need is charged on the way,
// each part before it is used:
//
//	first part ──► parts ──last part──► waits ──admitted──► compiles ──► loaded
//	(module, text   │                     │                   │(memory, variables)
//	 or image)      └──────────────── failed, or the file closed ──► all is given back
//
// The owner sees to the parts and to the end; Compile waits and compiles.
type Load struct {
	f       *File
	module  uint32
	name    string
	total   uint64
	image   bool   // machine code
	source  []byte // with room for all of it
	pages   []byte // that the source lies in, of machine code
	charged quota.Amounts
	kept    uint64 // VRAM of charged that the context keeps when the module is unloaded
	mod     gpu.Module
	err     error
}

// LoadPart takes a part of a PTX source, which begins at offset; parts come in order. With the
// last one it returns the Load, to be compiled and then ended.
func (f *File) LoadPart(module uint32, name string, offset, total uint64, part []byte) (*Load, error) {
	if f.compiling != nil {
		return nil, fmt.Errorf("module %d is being compiled, and a file compiles one at a time; wait for the answer: %w", f.compiling.module, syscall.EBUSY)
	}
	if offset == 0 {
		f.abandon()
		if err := f.beginLoad(module, name, total, gpu.IsImage(part)); err != nil {
			return nil, &LoadError{err}
		}
	}
	l, n := f.loading, uint64(len(part))
	if l == nil || l.module != module || l.total != total || offset != uint64(len(l.source)) || n == 0 || n > l.total-offset {
		f.abandon()
		return nil, fmt.Errorf("part of a module source out of order: %w", syscall.EINVAL)
	}
	l.source = append(l.source, part...)
	if uint64(len(l.source)) < l.total {
		return nil, nil
	}
	f.loading, f.compiling = nil, l
	return l, nil
}

// LoadError is an error about a module as a whole, whose text belongs into the module's log.
type LoadError struct{ err error }

func (e *LoadError) Error() string { return e.err.Error() }
func (e *LoadError) Unwrap() error { return e.err }

// Log returns the log of a module for the error of LoadPart or EndLoad, at most drm.MaxText
// bytes; none for nil and for errors that are not about the module.
func Log(err error) []byte {
	if _, is := errors.AsType[*LoadError](err); !is {
		return nil
	}
	text := err.Error()
	return []byte(text[:min(len(text), drm.MaxText)])
}

// beginLoad charges a module and makes room for its source.
func (f *File) beginLoad(module uint32, name string, total uint64, image bool) error {
	if err := f.modules.Vacant(module); err != nil {
		return err
	}
	if image {
		return f.beginImage(module, name, total)
	}
	if total == 0 || total > drm.MaxSource {
		return fmt.Errorf("module source of %d bytes: %w", total, syscall.EFBIG)
	}
	if need, most := gpu.ModuleMemory(total), f.guest.Limit(quota.ModuleMemory); need > most {
		return fmt.Errorf("a module source of %d bytes may take %d bytes to compile, and the guest may have %d (quota %s): %w",
			total, need, most, quota.ModuleMemory, syscall.EFBIG)
	}
	l := &Load{f: f, module: module, name: moduleName(name), total: total}
	l.charged[quota.Modules], l.charged[quota.ModuleText] = 1, total
	if err := f.account.ChargeEach(l.charged); err != nil {
		return err
	}
	l.source = make([]byte, 0, total)
	f.loading = l
	return nil
}

// beginImage is beginLoad for machine code, which may be long: its memory goes back to the system when it is loaded. The
// driver has its own copy then, and the charge stays for that.
func (f *File) beginImage(module uint32, name string, total uint64) error {
	switch {
	case !f.device.Properties().Images:
		return fmt.Errorf("machine code for NVIDIA's GPUs, which this device does not run: it takes PTX (nvcc -gencode arch=compute_XX,code=compute_XX): %w", syscall.ENOEXEC)
	case total > drm.MaxImage:
		return fmt.Errorf("machine code of %d bytes: %w", total, syscall.EFBIG)
	}
	l := &Load{f: f, module: module, name: moduleName(name), total: total, image: true}
	l.charged[quota.Modules], l.charged[quota.ModuleImage] = 1, total
	if err := f.account.ChargeEach(l.charged); err != nil {
		return err
	}
	var err error
	if l.pages, err = unix.Mmap(-1, 0, int(total), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		f.account.DischargeEach(l.charged)
		return fmt.Errorf("memory for %d bytes of machine code: %w", total, err)
	}
	l.source = l.pages[:0:total]
	f.loading = l
	return nil
}

// forget lets go of the source.
func (l *Load) forget() {
	l.source = nil
	if l.pages != nil {
		_ = unix.Munmap(l.pages) // our own mapping; cannot fail
		l.pages = nil
	}
}

// abandon forgets a source that was not sent to its end.
func (f *File) abandon() {
	if f.loading != nil {
		f.loading.forget()
		f.account.DischargeEach(f.loading.charged)
		f.loading = nil
	}
}

// EndLoad enters a module that has been compiled, or reports why it could not be.
func (f *File) EndLoad(l *Load) error {
	f.compiling = nil
	f.adopt(l)
	f.kept += l.kept
	l.charged[quota.VRAM] -= l.kept
	err := l.err
	if err == nil {
		err = f.modules.Put(l.module, &module{Module: l.mod, charged: l.charged})
	}
	if err != nil {
		f.account.DischargeEach(l.charged)
		return &LoadError{err}
	}
	return nil
}

// adopt holds what Compile took of the guest's quotas.
func (f *File) adopt(l *Load) {
	for _, r := range []quota.Resource{quota.ModuleMemory, quota.VRAM} {
		f.account.Adopt(r, l.charged[r])
	}
}

// loadModule calls the device. A fault of a compiler costs the guest its module, but not its
// backend.
func loadModule(ctx context.Context, on gpu.Context, l *Load, reserve gpu.Reserve) (mod gpu.Module, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &CompilerFault{Cause: p, Where: callers()}
		}
	}()
	return on.LoadModule(ctx, l.name, l.source, reserve)
}

// CompilerFault is a panic of the device's compiler.
type CompilerFault struct {
	Cause any
	Where string // the functions that it passed, the innermost first
}

// callers names the functions that the panic passed, the innermost first.
func callers() string {
	var pcs [16]uintptr
	var names []string
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])]) // behind callers, the deferred function and the runtime's
	for {
		f, more := frames.Next()
		names = append(names, fmt.Sprintf("%s:%d", path.Base(f.Function), f.Line))
		if !more {
			return strings.Join(names, " < ")
		}
	}
}

func (f *CompilerFault) Error() string {
	return fmt.Sprintf("the compiler failed on this module, which is a fault of PVDRM: %v; the backend's log has more", f.Cause)
}

// Compile waits for the guest's turn and loads the module into the file's context. It is for a
// goroutine of its own, and returns soon after ctx, the life of the file, has ended.
func (l *Load) Compile(ctx context.Context) {
	l.mod, l.err = l.compile(ctx)
	l.forget()
}

// need returns how much module memory the load takes while it lasts.
func (l *Load) need() uint64 {
	if l.image { // its bytes are charged as an image
		return gpu.ModuleMemory(0)
	}
	return gpu.ModuleMemory(l.total)
}

// compile takes memory for the module, and VRAM for its variables, and notes them in l.charged;
// where it fails it gives both back.
func (l *Load) compile(ctx context.Context) (mod gpu.Module, err error) {
	g, need := l.f.guest, l.need()
	if err := g.compiler.admit(ctx, g, need); err != nil {
		return nil, err
	}
	l.charged[quota.ModuleMemory] = need
	defer func() {
		if err != nil {
			g.Give(quota.VRAM, l.charged[quota.VRAM])
			g.Give(quota.ModuleMemory, l.charged[quota.ModuleMemory])
			l.charged[quota.VRAM], l.charged[quota.ModuleMemory] = 0, 0
		}
		g.compiler.leave(g)
	}()
	limit := g.compileLimit()
	tooLong := fmt.Errorf("compiling took longer than %v (the backend's limit for a module); make several modules of it: %w", limit, syscall.ETIMEDOUT)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, tooLong)
	defer cancel()
	reserve := func(bytes uint64) error {
		err := g.Take(quota.VRAM, bytes)
		if err == nil {
			l.charged[quota.VRAM] += bytes
		}
		return err
	}
	mod, err = loadModule(ctx, l.f.ctx, l, reserve)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(cause, err)
		}
		return nil, err
	}
	if r, ok := mod.(gpu.Retainer); ok {
		l.kept = min(r.Retained(), l.charged[quota.VRAM])
	}
	if keeps := mod.HostBytes(); keeps < need {
		g.Give(quota.ModuleMemory, need-keeps)
		l.charged[quota.ModuleMemory] = keeps
	}
	return mod, nil
}

package nvml

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/hypercall"
	"pvdrm/internal/progmem"
)

// LogEnv names the environment variable that makes the library print what fails and why, "errors",
// or every call, "calls": that of libcuda.so.1.
const LogEnv = "PVDRM_CUDA_LOG"

// File is an open DRM file that tells what the guest uses.
type File interface {
	drm.File
	Usage() (hypercall.Usage, error)
}

// Config is what a Library needs from the program it lives in.
type Config struct {
	Open   func() (File, error)
	Memory progmem.Memory
	// Now and Sleep are time's; nil: these.
	Now   func() time.Time
	Sleep func(time.Duration)
	// Proc is the directory of the processes; empty: /proc.
	Proc string
	// Logf writes a line for LogEnv; nil: standard error.
	Logf func(format string, args ...any)
}

// Library is the state of a libnvidia-ml. Its zero value is of no use; see New.
type Library struct {
	cfg             Config
	logAll, logErrs bool

	mu     sync.Mutex
	count  uint64 // of nvmlInit without nvmlShutdown
	file   File   // while count is not 0
	device *cuda.Device
	driver string // version
	meter  meter
}

// New makes a library. Nothing is opened before nvmlInit.
func New(cfg Config) *Library {
	if cfg.Logf == nil {
		cfg.Logf = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "libnvidia-ml: "+format+"\n", args...) }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Sleep == nil {
		cfg.Sleep = time.Sleep
	}
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	how := os.Getenv(LogEnv)
	return &Library{cfg: cfg, logAll: how == "calls", logErrs: how == "errors" || how == "calls"}
}

// Call runs the entry point with an index of Symbols().
func (l *Library) Call(symbol int, args *[MaxArgs]uint64) Result {
	if symbol < 0 || symbol >= len(symbols) {
		return ErrFunctionNotFound
	}
	e := symbols[symbol].entry
	err := l.run(e, args)
	if l.logAll || l.logErrs && err != nil {
		shown := err
		if err == nil {
			shown = Success
		}
		l.cfg.Logf("%s(%#x): %v", e.name, args[:len(e.args)], shown)
	}
	return resultOf(err)
}

func (l *Library) run(e *entry, args *[MaxArgs]uint64) error {
	c := &call{lib: l, args: args}
	l.mu.Lock()
	c.device, c.file, c.driver = l.device, l.file, l.driver
	l.mu.Unlock()
	if c.device == nil && !e.early {
		return fail(ErrUninitialized, "nvmlInit was not called")
	}
	for i, kind := range e.args {
		switch kind {
		case 'd':
			if args[i] != deviceHandle {
				return fail(ErrInvalidArgument, "argument %d is no device", i+1)
			}
		case 'h':
			return fail(ErrInvalidArgument, "argument %d is no handle", i+1)
		case 'p':
			if args[i] == 0 {
				return fail(ErrInvalidArgument, "argument %d is a null pointer", i+1)
			}
		}
	}
	if e.do != nil {
		return e.do(c)
	}
	if e.result == Success {
		return nil
	}
	return e.result
}

// resultOf is the nvmlReturn_t for what a handler returned.
func resultOf(err error) Result {
	if err == nil {
		return Success
	}
	if r, is := errors.AsType[Result](err); is {
		return r
	}
	switch {
	case errors.Is(err, syscall.EFAULT):
		return ErrInvalidArgument
	case errors.Is(err, syscall.EBADF):
		return ErrUninitialized // another thread has called nvmlShutdown
	case errors.Is(err, syscall.ENODEV):
		return ErrGPUIsLost
	case errors.Is(err, syscall.ENOSYS):
		return ErrNotSupported // a backend of an earlier version
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return ErrNoPermission
	}
	return ErrUnknown
}

// init is nvmlInit.
func (l *Library) init() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count > 0 {
		l.count++
		return nil
	}
	var file File
	driver, err := cuda.Init(func() (drm.File, error) {
		var err error
		file, err = l.cfg.Open()
		return file, err
	})
	if err != nil {
		return fail(initResult(err), "opening the device: %w", err)
	}
	device, err := driver.Device(0)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	major, minor := driver.Version()
	l.count, l.file, l.device, l.driver = 1, file, device, fmt.Sprintf("%d.%d", major, minor)
	l.meter = meter{}
	l.meter.begin(l) // a failure shows when somebody asks
	return nil
}

// initResult is what nvmlInit returns where the device cannot be opened.
func initResult(err error) Result {
	r, _ := errors.AsType[cuda.Result](err)
	switch {
	case r == cuda.ErrDriverMismatch:
		return ErrLibRMVersion
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return ErrNoPermission
	}
	return ErrDriverNotLoaded
}

// shutdown is nvmlShutdown.
func (l *Library) shutdown() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return fail(ErrUninitialized, "another thread has called nvmlShutdown")
	}
	if l.count--; l.count > 0 {
		return nil
	}
	file := l.file
	l.file, l.device = nil, nil
	if err := file.Close(); err != nil {
		return fail(ErrUnknown, "closing the device: %w", err)
	}
	return nil
}

package nvml

import (
	"errors"
	"fmt"
	"os"
	"slices"
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

// Opener opens a file on one device.
type Opener func() (File, error)

// Config is what a Library needs from the program it lives in.
type Config struct {
	Open   []Opener // of each device
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

	mu      sync.Mutex
	count   uint64    // of nvmlInit without nvmlShutdown
	devices []*device // while count is not 0
	driver  string    // version
}

// device is one of the guest's.
type device struct {
	*cuda.Device
	file  File
	index int
	meter meter
}

// handle is the nvmlDevice_t of a device.
func (d *device) handle() uint64 { return deviceHandle + handleStep*uint64(d.index) }

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
	c.devices, c.driver = l.devices, l.driver
	l.mu.Unlock()
	if c.devices == nil && !e.early {
		return fail(ErrUninitialized, "nvmlInit was not called")
	}
	for i, kind := range e.args {
		switch kind {
		case 'd':
			at := slices.IndexFunc(c.devices, func(d *device) bool { return d.handle() == args[i] })
			if at < 0 {
				return fail(ErrInvalidArgument, "argument %d is no device", i+1)
			}
			if c.device == nil {
				c.device = c.devices[at]
			} else {
				c.peer = c.devices[at]
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
	var devices []*device
	var openers []cuda.Opener
	for i, open := range l.cfg.Open {
		d := &device{index: i}
		devices = append(devices, d)
		openers = append(openers, func() (drm.File, error) {
			var err error
			d.file, err = open()
			return d.file, err
		})
	}
	driver, err := cuda.Init(openers...)
	if err != nil {
		return fail(initResult(err), "opening the device: %w", err)
	}
	for i, d := range devices {
		if d.Device, err = driver.Device(i); err != nil {
			return errors.Join(err, driver.Close())
		}
		d.meter.begin(l, d.file) // a failure shows when somebody asks
	}
	major, minor := driver.Version()
	l.count, l.devices, l.driver = 1, devices, fmt.Sprintf("%d.%d", major, minor)
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
	devices := l.devices
	l.devices = nil
	var err error
	for _, d := range devices {
		err = errors.Join(err, d.file.Close())
	}
	if err != nil {
		return fail(ErrUnknown, "closing the device: %w", err)
	}
	return nil
}

package cuda

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"pvdrm/drm"
)

// Result is a CUresult: an error with the number and name that cuda.h gives it.
type Result int

// Results of cuda.h that this package returns.
const (
	Success                 Result = 0
	ErrInvalidValue         Result = 1
	ErrOutOfMemory          Result = 2
	ErrDeviceUnavailable    Result = 46
	ErrNoDevice             Result = 100
	ErrInvalidDevice        Result = 101
	ErrMapFailed            Result = 205
	ErrInvalidPTX           Result = 218
	ErrOperatingSystem      Result = 304
	ErrInvalidHandle        Result = 400
	ErrNotFound             Result = 500
	ErrNotReady             Result = 600
	ErrIllegalAddress       Result = 700
	ErrLaunchOutOfResources Result = 701
	ErrLaunchTimeout        Result = 702
	ErrContextIsDestroyed   Result = 709
	ErrAssert               Result = 710
	ErrHardwareStack        Result = 714
	ErrIllegalInstruction   Result = 715
	ErrMisalignedAddress    Result = 716
	ErrLaunchFailed         Result = 719
	ErrCooperativeTooLarge  Result = 720
	ErrInvalidClusterSize   Result = 912
	ErrNotPermitted         Result = 800
	ErrNotSupported         Result = 801
	ErrDriverMismatch       Result = 803
	ErrUnknown              Result = 999
)

var resultText = map[Result]struct{ name, text string }{
	Success:                 {"CUDA_SUCCESS", "no error"},
	ErrInvalidValue:         {"CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	ErrOutOfMemory:          {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	ErrDeviceUnavailable:    {"CUDA_ERROR_DEVICE_UNAVAILABLE", "the GPU cannot be used now"},
	ErrNoDevice:             {"CUDA_ERROR_NO_DEVICE", "no GPU found"},
	ErrInvalidDevice:        {"CUDA_ERROR_INVALID_DEVICE", "no such device"},
	ErrMapFailed:            {"CUDA_ERROR_MAP_FAILED", "mapping failed"},
	ErrInvalidPTX:           {"CUDA_ERROR_INVALID_PTX", "the PTX was refused"},
	ErrOperatingSystem:      {"CUDA_ERROR_OPERATING_SYSTEM", "a system call failed"},
	ErrInvalidHandle:        {"CUDA_ERROR_INVALID_HANDLE", "the object does not exist, or belongs to another context"},
	ErrNotFound:             {"CUDA_ERROR_NOT_FOUND", "not found"},
	ErrNotReady:             {"CUDA_ERROR_NOT_READY", "not completed yet"},
	ErrIllegalAddress:       {"CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel or copy used an address that is not mapped"},
	ErrLaunchOutOfResources: {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "the kernel cannot run in blocks of this size"},
	ErrLaunchTimeout:        {"CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel ran longer than allowed"},
	ErrContextIsDestroyed:   {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context is destroyed"},
	ErrAssert:               {"CUDA_ERROR_ASSERT", "a kernel trapped or an assertion in it failed"},
	ErrHardwareStack:        {"CUDA_ERROR_HARDWARE_STACK_ERROR", "the call stack of a kernel overflowed"},
	ErrIllegalInstruction:   {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "a kernel reached an illegal instruction"},
	ErrMisalignedAddress:    {"CUDA_ERROR_MISALIGNED_ADDRESS", "a kernel used a misaligned address"},
	ErrLaunchFailed:         {"CUDA_ERROR_LAUNCH_FAILED", "the device failed while it worked"},
	ErrInvalidClusterSize:   {"CUDA_ERROR_INVALID_CLUSTER_SIZE", "clusters that the grid, the kernel or the device do not allow"},
	ErrCooperativeTooLarge:  {"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "more blocks than run at the same time, in a cooperative launch"},
	ErrNotPermitted:         {"CUDA_ERROR_NOT_PERMITTED", "not permitted"},
	ErrNotSupported:         {"CUDA_ERROR_NOT_SUPPORTED", "not supported"},
	ErrDriverMismatch:       {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "the driver is not one that this program can use"},
	ErrUnknown:              {"CUDA_ERROR_UNKNOWN", "unknown error"},
}

// String is the name in cuda.h, as cuGetErrorName returns it.
func (r Result) String() string {
	if t, ok := resultText[r]; ok {
		return t.name
	}
	if name, ok := otherNames[r]; ok {
		return "CUDA_ERROR_" + name
	}
	return fmt.Sprintf("CUresult %d", int(r))
}

// Known says whether cuda.h has a name for the result.
func (r Result) Known() bool {
	_, ours := resultText[r]
	_, other := otherNames[r]
	return ours || other
}

// Error is the name, the number and a few words.
func (r Result) Error() string {
	text := resultText[r].text
	if text == "" {
		text = strings.ToLower(strings.ReplaceAll(otherNames[r], "_", " "))
	}
	return fmt.Sprintf("%s (%d): %s", r.String(), int(r), text)
}

// Error is what the functions of this package return.
type Error struct {
	Call   string // the function as it is called in cuda.h
	Result Result
	Err    error // the cause; nil when there is none beyond the Result
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Call + ": " + e.Result.Error()
	}
	return e.Call + ": " + e.Result.Error() + ": " + e.Err.Error()
}

// Unwrap returns the Result and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Result}
	}
	return []error{e.Result, e.Err}
}

// errorf makes an Error with a cause made of words.
func errorf(call string, r Result, format string, args ...any) error {
	return &Error{Call: call, Result: r, Err: fmt.Errorf(format, args...)}
}

// resultOf finds the Result for an error of drm.File. EIO is not in here: what
// it means must be asked for (Context.fail).
func resultOf(err error) Result {
	var refused *drm.ModuleError
	var errno syscall.Errno
	switch {
	case errors.As(err, &refused):
		switch { // what is not the fault of the PTX
		case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOSPC):
			return ErrOutOfMemory
		case errors.Is(err, syscall.EOPNOTSUPP):
			return ErrNotSupported
		}
		return ErrInvalidPTX
	case !errors.As(err, &errno):
		return ErrUnknown
	}
	switch errno {
	case syscall.EINVAL:
		return ErrInvalidValue
	case syscall.ENOMEM, syscall.ENOSPC:
		return ErrOutOfMemory
	case syscall.ENOENT:
		return ErrNotFound
	case syscall.EXDEV:
		return ErrNotSupported
	case syscall.ERANGE:
		return ErrCooperativeTooLarge
	case syscall.EDOM:
		return ErrInvalidClusterSize
	case syscall.ENODEV, syscall.ENXIO, syscall.EBUSY:
		return ErrDeviceUnavailable
	case syscall.ETIME:
		return ErrNotReady
	case syscall.EACCES, syscall.EPERM:
		return ErrNotPermitted
	case syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.ENOTTY:
		return ErrNotSupported
	}
	return ErrOperatingSystem
}

// lostResults is by cause of a lost context, as STATUS returns it (the values
// of gpu.LostCause, which are part of the wire protocol).
var lostResults = [...]Result{
	1: ErrIllegalAddress,
	2: ErrMisalignedAddress,
	3: ErrIllegalInstruction,
	4: ErrAssert,
	5: ErrLaunchTimeout,
	6: ErrHardwareStack,
	7: ErrLaunchFailed,
}

func lostResult(cause uint32) Result {
	if cause > 0 && cause < uint32(len(lostResults)) {
		return lostResults[cause]
	}
	return ErrUnknown
}

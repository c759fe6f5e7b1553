package nvml

import "fmt"

// Result is an nvmlReturn_t, with the numbers of nvml.h.
type Result int32

// Results that the library returns.
const (
	Success             Result = 0
	ErrUninitialized    Result = 1
	ErrInvalidArgument  Result = 2
	ErrNotSupported     Result = 3
	ErrNoPermission     Result = 4
	ErrNotFound         Result = 6
	ErrInsufficientSize Result = 7
	ErrDriverNotLoaded  Result = 9
	ErrFunctionNotFound Result = 13
	ErrGPUIsLost        Result = 15
	ErrLibRMVersion     Result = 18
	ErrVersionMismatch  Result = 25
	ErrUnknown          Result = 999

	unknownInWords = "Unknown Error"
)

// words are what nvmlErrorString says, by number.
var words = [...]string{
	0: "Success", 1: "Uninitialized", 2: "Invalid Argument", 3: "Not Supported", 4: "Insufficient Permissions",
	5: "Already Initialized", 6: "Not Found", 7: "Insufficient Size", 8: "Insufficient External Power",
	9: "Driver Not Loaded", 10: "Timeout", 11: "Interrupt Request Issue", 12: "NVML Shared Library Not Found",
	13: "Function Not Found", 14: "Corrupted infoROM", 15: "GPU is lost", 16: "GPU requires reset",
	17: "GPU access blocked by the operating system", 18: "Driver/library version mismatch", 19: "In use by another client",
	20: "Insufficient Memory", 21: "No data", 22: "Not supported while ECC is enabled", 23: "Insufficient resources",
	24: "Frequency not supported", 25: "Argument version mismatch", 26: "Deprecated", 27: "Not ready", 28: "GPU not found",
	29: "Invalid state", 30: "Reset type not supported",
}

// Error returns the result in words.
func (r Result) Error() string {
	if r >= 0 && int(r) < len(words) {
		return words[r]
	}
	return unknownInWords
}

// Known reports whether nvml.h has the number.
func (r Result) Known() bool { return r >= 0 && int(r) < len(words) || r == ErrUnknown }

// failure is a Result with its reason.
type failure struct {
	result Result
	err    error
}

func (f *failure) Error() string { return fmt.Sprintf("%v: %v", f.result, f.err) }

func (f *failure) Unwrap() []error { return []error{f.result, f.err} }

// fail makes an error with a reason.
func fail(r Result, format string, args ...any) error {
	return &failure{result: r, err: fmt.Errorf(format, args...)}
}

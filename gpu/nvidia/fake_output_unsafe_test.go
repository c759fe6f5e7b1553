package nvidia

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// fakeOutput is what kernels of the fake driver have printed, as the real one prints it: when anything is waited
// for, and by way of the C library.
type fakeOutput struct {
	mu     sync.Mutex
	text   strings.Builder
	failed bool // an assertion, whose text is due
}

var fakePrints fakeOutput

// says prints as many bytes as it is told.
func (o *fakeOutput) says(p []byte, threads int) result {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range threads {
		fmt.Fprintf(&o.text, "thread %d%s\n", i, strings.Repeat("!", int(word64(p, 0))))
	}
	return resultOK
}

func (o *fakeOutput) asserts([]byte, int) result {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = true
	return resultAssert
}

// flush prints what is due.
func (o *fakeOutput) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	cPuts(o.text.String(), "stdout")
	o.text.Reset()
}

// fail prints the text of an assertion, once. It takes its time: who is told of the fault before that misses the
// text.
func (o *fakeOutput) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed {
		time.Sleep(5 * time.Millisecond)
		cPuts("f.cu:7: asserts: Assertion `false` failed.\n", "stderr")
		o.failed = false
	}
}

// FakeLate is the width of a grid whose launch returns after it has faulted, so that what the worker does next
// finds the fault.
const FakeLate = 77

// cPuts has the C library write to one of its files.
func cPuts(text, file string) {
	if text == "" {
		return
	}
	puts, err := purego.Dlsym(purego.RTLD_DEFAULT, "fputs")
	if err != nil {
		panic(err)
	}
	at, err := purego.Dlsym(purego.RTLD_DEFAULT, file)
	if err != nil {
		panic(err)
	}
	b := append([]byte(text), 0)
	purego.SyscallN(puts, uintptr(unsafe.Pointer(unsafe.SliceData(b))), *(*uintptr)(address(uint64(at))))
}

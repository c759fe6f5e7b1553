package jit

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
)

// Faults of the compiler. A function whose compilation panics stays interpreted, with the same results; the panic is
// counted, and told to who asked for it.

// maxFault bounds the text of a fault.
const maxFault = 300

var (
	failures  atomic.Uint64
	onFailure atomic.Pointer[func(function, fault string)]
)

// Failures returns how often the compiler has failed in this process.
func Failures() uint64 { return failures.Load() }

// OnFailure makes the process call f whenever the compiler fails, with the name of the function, which is a guest's,
// and with what went wrong and where. F may be called by several goroutines at a time; nil stands for none.
func OnFailure(f func(function, fault string)) {
	if f == nil {
		onFailure.Store(nil)
		return
	}
	onFailure.Store(&f)
}

// fail counts and tells a panic of the compiler. It is called while that goes up.
func fail(function string, cause any) {
	failures.Add(1)
	if f := onFailure.Load(); f != nil {
		text := fmt.Sprint(cause)
		(*f)(function, text[:min(len(text), maxFault)]+placeOfPanic(debug.Stack()))
	}
}

// placeOfPanic is where a stack says that the panic began, with the file's name and line.
func placeOfPanic(stack []byte) string {
	_, after, ok := strings.Cut(string(stack), "\npanic(")
	if !ok {
		return ""
	}
	lines := strings.Split(after, "\n") // the call of panic, its place, then a function and its place by turns
	for n := 3; n < len(lines); n += 2 {
		place, _, _ := strings.Cut(strings.TrimSpace(lines[n]), " ")
		if !strings.Contains(place, "/runtime/") {
			return " at " + place[strings.LastIndexByte(place, '/')+1:]
		}
	}
	return ""
}

package gpu_test

import (
	"errors"
	"fmt"
	"time"

	"pvdrm/gpu"
)

// Addresses are chosen by the owner of an address space, inside the device's windows.
func ExampleWindow_Contains() {
	vram := gpu.Window{Base: 1 << 40, Size: 1 << 30, Page: 2 << 20}
	fmt.Println(vram.Contains(1<<40, 2<<20))
	fmt.Println(vram.Contains(1<<40+1<<30-4096, 8192))
	fmt.Println(vram.Contains(1<<40, ^uint64(0)))
	// Output:
	// true
	// false
	// false
}

// A context that a kernel has lost fails with a LostError, which names the cause.
func ExampleLostError() {
	err := fmt.Errorf("channel 1: %w", &gpu.LostError{Cause: gpu.LostTimeout, Kernel: "spin"})
	var lost *gpu.LostError
	if errors.As(err, &lost) {
		fmt.Println(lost.Kernel, lost.Cause == gpu.LostTimeout)
	}
	// Output: spin true
}

// turnstile is a gate that is always open, and prints who goes through it.
type turnstile struct{}

func (turnstile) Enter(e gpu.Engine, _ bool) <-chan struct{} {
	fmt.Println("enter", e)
	return nil
}
func (turnstile) Cancel(gpu.Engine)                        {}
func (turnstile) Wanted(gpu.Engine) bool                   { return false }
func (turnstile) Alone(gpu.Engine) bool                    { return false }
func (turnstile) Turn(gpu.Engine) bool                     { return false }
func (turnstile) Revoked(gpu.Engine, time.Duration) bool   { return false }
func (turnstile) Preempted(gpu.Engine) bool                { return false }
func (turnstile) Charge(gpu.Engine, time.Duration, uint64) {}
func (turnstile) Leave(e gpu.Engine, used time.Duration, commands uint64, _ bool) {
	fmt.Println("leave", e, used, commands)
}

// A device asks its gate before each use of an engine and reports what it used. Nil means
// that it may begin at once.
func ExampleGate() {
	var gate gpu.Gate = turnstile{}
	if wait := gate.Enter(gpu.EngineCompute, false); wait != nil {
		<-wait
	}
	gate.Leave(gpu.EngineCompute, 3*time.Millisecond, 1, false)
	// Output:
	// enter compute
	// leave compute 3ms 1
}

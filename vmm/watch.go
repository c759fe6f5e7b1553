package vmm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"pvdrm/vmm/control"
	"pvdrm/vmm/qmp"
)

const (
	consoleLines = 12               // of the console in an error message
	panicLook    = time.Second      // how often a booting guest's console is searched for a panic
	powerOff     = 15 * time.Second // for a guest to power off when asked to
	quitGrace    = 3 * time.Second  // for QEMU to quit when asked to
)

// GuestError reports that a guest did not come up or did not stay up.
type GuestError struct {
	Reason  string // what happened and what to do
	Console string // the last lines of the console, fit to be printed
}

func (e *GuestError) Error() string {
	if e.Console == "" {
		return e.Reason
	}
	return e.Reason + "\nlast lines of the guest's console:\n" + e.Console
}

// panicError returns the error for a kernel that panicked, nil for one that has not.
func (vm *VM) panicError() error {
	words, before := vm.console.panicked()
	if words == "" {
		return nil
	}
	return &GuestError{"the guest's kernel panicked: " + words, lastLines(before, consoleLines)}
}

func (vm *VM) guestError(format string, args ...any) error {
	return &GuestError{strings.TrimSpace(fmt.Sprintf(format, args...)), lastLines(vm.console.text(), consoleLines)}
}

// event takes what matters from QEMU's events.
func (vm *VM) event(e qmp.Event) {
	if e.Name != "SHUTDOWN" {
		return
	}
	var data struct{ Reason string }
	if json.Unmarshal(e.Data, &data) == nil {
		vm.mu.Lock()
		vm.shutdown = data.Reason
		vm.mu.Unlock()
	}
}

// conclude says why the machine ended. Preconditions: QEMU has ended, vm.mu is held.
func (vm *VM) conclude() error {
	if err := vm.panicError(); err != nil {
		return err
	}
	if vm.asked {
		return nil
	}
	if err := vm.proc.end(); err != nil {
		said := vm.proc.messages()
		return vm.guestError("%v\n%s%s", err, said, vm.hint(said))
	}
	switch vm.shutdown {
	case "guest-shutdown", "guest-reset":
		return nil
	}
	return vm.guestError("QEMU ended by itself (reason %q)\n%s", vm.shutdown, vm.proc.messages())
}

// hint adds what to do about what QEMU said.
func (vm *VM) hint(said string) string {
	for _, h := range []struct{ text, hint string }{
		{"requires kvm", "this QEMU needs KVM for a vhost-user GPU: " + installHint},
		{"Failed to connect", "nothing listens at the GPU's socket: start the backend first (pvdrm backend)"},
		{"vhost-user-gpu-pci' is not a valid device", "this QEMU was built without vhost-user-gpu: " + installHint},
		{"Failed to read msg header", "the GPU's backend hung up: it has ended, or it serves another guest; its log says more"},
		{"no option group 'sandbox'", "this QEMU was built without seccomp: " + installHint},
		// "… requires a GL context", "… requires display DMABUF support"
		{"The console requires", "QEMU's windows show this GPU only on a host whose own GPU imports dmabufs; --display vnc=:1 needs none"},
		{"Cannot allocate memory", "the host has too little memory: give the guest less"},
	} {
		if strings.Contains(said, h.text) {
			return "\n" + h.hint
		}
	}
	return ""
}

// WaitReady waits until the guest's init takes commands. It returns a *GuestError where the guest does
// not get there in time, panics or ends.
func (vm *VM) WaitReady(ctx context.Context) error {
	limit := time.NewTimer(time.Until(vm.began.Add(vm.cfg.BootTimeout)))
	defer limit.Stop()
	look := time.NewTicker(panicLook)
	defer look.Stop()
	for {
		select {
		case <-vm.control.Up():
			return nil
		case <-vm.done:
			if err := vm.Wait(); err != nil {
				return err
			}
			return vm.guestError("the guest ended before it was ready")
		case <-vm.control.Done():
			return vm.lost(vm.control.Err())
		case <-look.C:
			if err := vm.panicError(); err != nil {
				return err
			}
		case <-limit.C:
			return vm.late()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// late reports that the guest did not come up in time.
func (vm *VM) late() error {
	do := "a busy host needs a longer boot timeout"
	if vm.accel.Name == KVM {
		do = "guests hang in the KVM of some machines; the accelerator " + TCG + " works everywhere"
	}
	return vm.guestError("the guest was not ready within %v (%v): %s", vm.cfg.BootTimeout, vm.accel, do)
}

// Guest returns the Hello of the guest's init.
func (vm *VM) Guest() control.Hello { return vm.control.Hello() }

// lost turns the end of the control connection into the reason for it.
func (vm *VM) lost(err error) error {
	select {
	case <-vm.done:
		if end := vm.Wait(); end != nil {
			return end
		}
		return errors.New("the guest has powered off")
	case <-time.After(quitGrace):
		return fmt.Errorf("control port: %w", err)
	}
}

// Shutdown asks the guest to power off, and ends the machine the hard way where it does not within a
// fair time or until ctx ends. It waits for the end and returns an error where that was needed.
func (vm *VM) Shutdown(ctx context.Context) error {
	vm.mu.Lock()
	vm.asked = true
	vm.mu.Unlock()
	select {
	case <-vm.control.Up():
		if err := vm.control.Shutdown(); err == nil && vm.ended(ctx, powerOff) {
			return vm.Wait()
		}
	default: // init is not there yet to be asked
	}
	qctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitGrace)
	defer cancel()
	quit := vm.qmp.Execute(qctx, "quit", nil, nil)
	if !vm.ended(context.WithoutCancel(ctx), quitGrace) {
		vm.proc.kill()
		<-vm.done
		return fmt.Errorf("the guest did not power off and QEMU did not quit (%w): killed it", errors.Join(quit, context.Cause(ctx)))
	}
	return vm.Wait()
}

// ended waits for the end of the machine, at most for a while.
func (vm *VM) ended(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-vm.done:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

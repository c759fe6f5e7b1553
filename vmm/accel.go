package vmm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"pvdrm/vmm/control"
)

// Names of accelerators.
const (
	Auto = "auto" // KVM where it works, else TCG
	KVM  = "kvm"  // hardware virtualization
	TCG  = "tcg"  // emulation
)

// probeTimeout is how long a guest may take to boot to init under KVM before KVM counts as broken. A
// machine with working KVM takes about a second.
const probeTimeout = 20 * time.Second

// Accelerator is what runs the guest's processors, and why.
type Accelerator struct {
	Name   string // KVM or TCG
	Reason string // for a person
}

func (a Accelerator) String() string { return a.Name + ": " + a.Reason }

// Places that tests replace.
var (
	cpuinfoFile = "/proc/cpuinfo"
	kvmFile     = "/dev/kvm"
	bootIDFile  = "/proc/sys/kernel/random/boot_id"
)

var virtFlags = regexp.MustCompile(`(?m)^flags\s*:.*\b(vmx|svm)\b`)

// ChooseAccelerator decides by cfg.Accel. For Auto, KVM has to prove itself by booting cfg's kernel:
// there are machines whose /dev/kvm opens and on which stock kernels hang. What came of that is
// remembered in cfg.CacheDir for this kernel, this QEMU and this boot of the host.
func ChooseAccelerator(ctx context.Context, qemu QEMU, cfg Config) (Accelerator, error) {
	switch cfg.Accel {
	case TCG:
		return Accelerator{TCG, "asked for"}, nil
	case KVM:
		if why := kvmMissing(); why != "" {
			return Accelerator{}, fmt.Errorf("KVM cannot be used: %s", why)
		}
		return Accelerator{KVM, "asked for"}, nil
	case Auto, "":
	default:
		return Accelerator{}, fmt.Errorf("unknown accelerator %q: use %s, %s or %s", cfg.Accel, Auto, KVM, TCG)
	}
	if why := kvmMissing(); why != "" {
		return Accelerator{TCG, why}, nil
	}
	if cfg.Initrd == "" {
		return Accelerator{TCG, "without PVDRM's initrd there is no way to see whether KVM works here"}, nil
	}
	memory := probeMemory{file: filepath.Join(cfg.CacheDir, "accelerator.json"), off: cfg.CacheDir == ""}
	key := probeKey(qemu, cfg.Kernel)
	if a, ok := memory.recall(key); ok {
		return a, nil
	}
	if cfg.Progress != nil {
		cfg.Progress(fmt.Sprintf("Trying whether KVM can boot the guest's kernel (%v at most)", probeTimeout))
	}
	a := Accelerator{KVM, "the guest's kernel boots under it"}
	if err := tryBoot(ctx, qemu, KVM, cfg); err != nil {
		if ctx.Err() != nil {
			return Accelerator{}, context.Cause(ctx)
		}
		a = Accelerator{TCG, fmt.Sprintf("/dev/kvm is there, but the guest's kernel does not boot under it (%v)", err)}
	}
	memory.keep(key, a)
	return a, nil
}

// kvmMissing returns why KVM is out of the question, empty where it may work.
func kvmMissing() string {
	if b, err := os.ReadFile(cpuinfoFile); err == nil && !virtFlags.Match(b) {
		return "the processor offers no hardware virtualization (neither vmx nor svm in /proc/cpuinfo)"
	}
	f, err := os.OpenFile(kvmFile, os.O_RDWR, 0)
	switch {
	case err == nil:
		f.Close()
		return ""
	case errors.Is(err, os.ErrNotExist):
		return kvmFile + " is missing (load the module kvm_intel or kvm_amd)"
	case errors.Is(err, os.ErrPermission):
		return "no permission for " + kvmFile + " (add yourself to the group kvm)"
	}
	return err.Error()
}

// tryBoot boots the kernel with an accelerator and waits for init to say so.
func tryBoot(ctx context.Context, qemu QEMU, accel string, cfg Config) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("nothing after %v", probeTimeout))
	defer cancel()
	cfg.Append = control.ProbeParameter
	cfg.MemoryMiB, cfg.CPUs, cfg.GPUSocket, cfg.PCISocket, cfg.MoreGPUs, cfg.ExtraArgs, cfg.Console = 256, 1, "", "", nil, nil, nil
	vm, err := start(ctx, qemu, Accelerator{Name: accel}, cfg)
	if err != nil {
		return err
	}
	defer vm.Kill()
	select {
	case <-vm.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !strings.Contains(vm.console.text(), control.ProbeMarker) {
		return errors.New("it ended without a sign of life")
	}
	return nil
}

// probeKey names the inputs of a probe's result.
func probeKey(qemu QEMU, kernel string) string {
	h := sha256.New()
	boot, _ := os.ReadFile(bootIDFile) // without one, the key lasts longer than it should
	fmt.Fprintf(h, "%s\n%s\n%v\n%s\n", boot, qemu.Path, qemu.Version, kernel)
	if st, err := os.Stat(kernel); err == nil {
		fmt.Fprintln(h, st.Size(), st.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// probeMemory is a file with the last probe's result.
type probeMemory struct {
	file string
	off  bool
}

type probeResult struct {
	Key         string
	Accelerator Accelerator
}

func (m probeMemory) recall(key string) (Accelerator, bool) {
	if m.off {
		return Accelerator{}, false
	}
	b, err := os.ReadFile(m.file)
	var r probeResult
	if err != nil || json.Unmarshal(b, &r) != nil || r.Key != key || r.Accelerator.Name != KVM && r.Accelerator.Name != TCG {
		return Accelerator{}, false
	}
	return r.Accelerator, true
}

// keep remembers a result. Where it cannot, the next start probes again.
func (m probeMemory) keep(key string, a Accelerator) {
	if m.off {
		return
	}
	b, err := json.MarshalIndent(probeResult{key, a}, "", "  ")
	if err != nil || os.MkdirAll(filepath.Dir(m.file), 0o755) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(m.file), ".accelerator-*")
	if err != nil {
		return
	}
	_, err = f.ReadFrom(bytes.NewReader(append(b, '\n')))
	if cerr := f.Close(); err != nil || cerr != nil || os.Rename(f.Name(), m.file) != nil {
		os.Remove(f.Name())
	}
}

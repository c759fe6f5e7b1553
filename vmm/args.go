package vmm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pvdrm/vmm/control"
)

// File descriptors that QEMU inherits, beside the standard ones.
const (
	fdQMP     = 3
	fdControl = 4
)

// Kernel command lines. The kernel's own messages go to the GPU's console too; init's and the last
// lines before a panic are on the serial line.
const (
	appendAlways = "console=tty0 console=ttyS0 quiet panic=-1 random.trust_cpu=on"
	// An emulated processor has nothing to mitigate, and its owner no time to wait for self-tests. Nor
	// is there time at each switch to account for pressure stalls, which nobody reads, or in each ioctl
	// to ask security modules that have no policy.
	appendTCG = "mitigations=off cryptomgr.notests tsc=reliable no_timer_check psi=0 lsm="
	// QEMU before 10.1 may abort ("iotlb_to_section: Assertion `section_index < d->map.sections_nb'
	// failed") where the guest gives a PCI device its addresses while another emulated processor runs.
	// So the kernel starts one processor, and the guest's init starts the others when all drivers are
	// there. The second parameter saves patching all locks of the kernel then.
	appendSMP = "maxcpus=1 noreplace-smp"
)

// cpuTCG is x86-64-v2, which today's programs expect, and RDRAND, with which the guest's random numbers
// are there at once. It boots 0.2 s faster than "max", which has AVX2.
const cpuTCG = "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand"

// arguments returns QEMU's command line. As run by Start, QMP, the control port and the console go
// over inherited descriptors, so that there is nothing on disk to be left behind. For a person, the
// console is on the terminal and the others are left out.
func arguments(cfg Config, accel string, forPerson bool) []string {
	kernelArgs, cpus := appendAlways, strconv.Itoa(cfg.CPUs)
	a := []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", cfg.display(),
		"-name", "pvdrm",
		"-machine", "q35,memory-backend=mem,smbus=off,sata=off,usb=off",
		"-object", "memory-backend-memfd,id=mem,share=on,seal=on,size=" + strconv.Itoa(cfg.MemoryMiB) + "M",
	}
	if accel == KVM {
		a = append(a, "-smp", cpus, "-accel", "kvm", "-cpu", cmp.Or(cfg.CPU, "host"))
	} else {
		// Emulated processors share no cache, and to wake one that sleeps is dear. A guest that is told
		// so wakes a task where it was, rather than on an idle processor: trapped calls of pvdrm-run,
		// two such wakes each, take a third less.
		a = append(a, "-smp", cpus+",sockets="+cpus, "-accel", "tcg,thread=multi", "-cpu", cmp.Or(cfg.CPU, cpuTCG))
		kernelArgs += " " + appendTCG
		if cfg.CPUs > 1 {
			kernelArgs += " " + appendSMP
		}
	}
	if cfg.Append != "" {
		kernelArgs += " " + cfg.Append
	}
	a = append(a, "-kernel", cfg.Kernel, "-append", kernelArgs)
	if cfg.Initrd != "" {
		a = append(a, "-initrd", cfg.Initrd)
	}
	if cfg.Disk != "" {
		a = append(a, "-drive", "if=none,id=disk,format=raw,readonly=on,file="+escape(cfg.Disk), "-device", "virtio-blk-pci,drive=disk")
	}
	for _, s := range cfg.Shares {
		a = append(a, s.arguments()...)
	}
	if cfg.PCISocket != "" {
		path, _ := json.Marshal(cfg.PCISocket) // a string always encodes
		a = append(a, "-device", `{"driver":"vfio-user-pci","x-no-posted-writes":true,"x-msg-timeout":60000,"socket":{"type":"unix","path":`+string(path)+`}}`)
	}
	for i, socket := range cfg.gpus() {
		name, device := "gpu", cfg.gpuDevice()
		if i > 0 {
			name = fmt.Sprintf("gpu-%d", i)
			device = fmt.Sprintf("vhost-user-gpu-pci,id=gpu%d,chardev=%s", i, name)
		}
		a = append(a, "-chardev", "socket,id="+name+",path="+escape(socket), "-device", device)
	}
	if cfg.Input {
		a = append(a, "-device", "virtio-keyboard-pci", "-device", "virtio-tablet-pci")
	}
	if forPerson {
		a = append(a, "-serial", "mon:stdio")
	} else {
		a = append(a,
			// System calls that QEMU does not need here, so that a guest that breaks into it gains less.
			"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny",
			"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
			"-chardev", "socket,id=qmp,fd="+strconv.Itoa(fdQMP), "-mon", "chardev=qmp,mode=control",
			"-device", "virtio-serial-pci",
			"-chardev", "socket,id=control,fd="+strconv.Itoa(fdControl),
			"-device", "virtserialport,chardev=control,name="+control.PortName)
	}
	return append(a, cfg.ExtraArgs...)
}

// escape makes a value fit for QEMU's key=value lists, where a comma ends it unless it is doubled.
func escape(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// quote makes a word fit for a shell.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// absolute makes the paths in a Config independent of the working directory.
func (cfg *Config) absolute() error {
	paths := []*string{&cfg.Kernel, &cfg.Initrd, &cfg.Disk, &cfg.GPUSocket, &cfg.PCISocket}
	cfg.MoreGPUs = slices.Clone(cfg.MoreGPUs)
	for i := range cfg.MoreGPUs {
		paths = append(paths, &cfg.MoreGPUs[i])
	}
	for _, p := range paths {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("path %s: %w", *p, err)
		}
		*p = abs
	}
	return nil
}

// CommandLine returns a shell command that starts the same machine by hand, with its console on the
// terminal. The guest then has no control port, so its init runs a shell on the console. A backend
// must be there to serve the GPU's socket.
func (vm *VM) CommandLine() string {
	words := []string{vm.qemu.Path}
	words = append(words, arguments(vm.cfg, vm.accel.Name, true)...)
	for i, w := range words {
		words[i] = quote(w)
	}
	return strings.Join(words, " ")
}

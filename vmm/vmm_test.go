package vmm

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopyright (c) 2003-2025\n": {Major: 10, Minor: 0, Micro: 2},
		"QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7)\n":                                           {Major: 7, Minor: 2, Micro: 19},
		"QEMU emulator version 11.1.50 (v11.1.0-123-gabcdef)\n":                                          {Major: 11, Minor: 1, Micro: 50},
		"QEMU emulator version 9.2\n":                                                                    {Major: 9, Minor: 2, Micro: 0},
		"warning: something\nQEMU emulator version 10.1.0\n":                                             {Major: 10, Minor: 1, Micro: 0},
	} {
		got, err := parseVersion(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "GNU bash, version 5.2", "QEMU emulator version x", "QEMU emulator version 99999999999999999999.1"} {
		_, err := parseVersion(text)
		require.Error(t, err, text)
	}
}

func TestVersionOrder(t *testing.T) {
	sorted := []Version{{Major: 6, Minor: 9, Micro: 9}, {Major: 7, Minor: 2, Micro: 0}, {Major: 7, Minor: 2, Micro: 19}, {Major: 7, Minor: 10, Micro: 0}, {Major: 10, Minor: 0, Micro: 0}, {Major: 10, Minor: 0, Micro: 2}}
	for i, v := range sorted {
		for j, w := range sorted {
			require.Equal(t, i < j, v.Less(w), "%v < %v", v, w)
		}
	}
}

// fakeQEMU is a script in QEMU's place.
func fakeQEMU(t *testing.T, version, body string) string {
	path := filepath.Join(t.TempDir(), "qemu")
	script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'QEMU emulator version " + version + "'; exit; fi\n" + body + "\n"
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

// minimal is a Config that passes all checks before QEMU is started.
func minimal(t *testing.T, qemu string) Config {
	kernel := filepath.Join(t.TempDir(), "kernel")
	require.NoError(t, os.WriteFile(kernel, []byte("kernel"), 0o644))
	return Config{QEMU: qemu, Accel: TCG, Kernel: kernel}
}

func listen(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "gpu")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return path
}

func TestStartErrors(t *testing.T) {
	old := qmpTimeout
	defer func() { qmpTimeout = old }()
	for name, tc := range map[string]struct {
		qemu string
		cfg  func(*Config)
		is   error
		want string
	}{
		"no QEMU":            {qemu: "/no/such/qemu", cfg: nil, is: ErrNoQEMU, want: "bookworm-backports"},
		"old QEMU":           {qemu: fakeQEMU(t, "6.2.0", ""), cfg: nil, is: ErrOldQEMU, want: "is version 6.2.0, but version 7.2.0 is needed"},
		"old for TCG":        {qemu: fakeQEMU(t, "7.2.19", ""), cfg: func(c *Config) { c.GPUSocket = listen(t) }, is: ErrOldQEMU, want: "without KVM version 10.0.0"},
		"no version":         {qemu: fakeQEMU(t, "?", ""), cfg: nil, is: nil, want: "cannot read QEMU's version"},
		"complains":          {qemu: fakeQEMU(t, "10.0.2", "echo 'qemu: -device x: no such thing' >&2; exit 1"), cfg: nil, is: nil, want: "| qemu: -device x: no such thing"},
		"backend gone":       {qemu: fakeQEMU(t, "10.0.2", "echo \"Failed to connect to 'x': Connection refused\" >&2; exit 1"), cfg: nil, is: nil, want: "start the backend first"},
		"no window":          {qemu: fakeQEMU(t, "10.0.2", "echo 'qemu: The console requires display DMABUF support.' >&2; exit 1"), cfg: nil, is: nil, want: "--display vnc=:1"},
		"ends without words": {qemu: fakeQEMU(t, "10.0.2", "exit 0"), cfg: nil, is: nil, want: "QEMU did not start: wait for QEMU's greeting"},
		"hangs":              {qemu: fakeQEMU(t, "10.0.2", "exec sleep 1000"), cfg: nil, is: nil, want: "QEMU did not start: wait for QEMU's greeting"},
		"old for PCI":        {qemu: fakeQEMU(t, "10.0.2", ""), cfg: func(c *Config) { c.PCISocket = listen(t) }, is: ErrOldQEMU, want: "scripts/qemu-pci.sh"},
		"no PCI server":      {qemu: "", cfg: func(c *Config) { c.PCISocket = "/no/such" }, is: os.ErrNotExist, want: "pvdrm backend"},
		"backend is in use":  {qemu: fakeQEMU(t, "10.0.2", "exec sleep 1000"), cfg: func(c *Config) { c.GPUSocket = listen(t) }, is: nil, want: "A backend serves one guest"},
		"no kernel":          {qemu: "", cfg: func(c *Config) { c.Kernel = "" }, is: nil, want: "no kernel"},
		"kernel is gone":     {qemu: "", cfg: func(c *Config) { c.Kernel = "/no/such" }, is: os.ErrNotExist, want: "pvdrm image"},
		"initrd is gone":     {qemu: "", cfg: func(c *Config) { c.Initrd = "/no/such" }, is: os.ErrNotExist, want: "pvdrm image"},
		"no backend":         {qemu: "", cfg: func(c *Config) { c.GPUSocket = "/no/such" }, is: os.ErrNotExist, want: "pvdrm backend"},
		"backend is a file":  {qemu: "", cfg: func(c *Config) { c.GPUSocket = c.Kernel }, is: nil, want: "is not a socket"},
		"second backend":     {qemu: "", cfg: func(c *Config) { c.GPUSocket, c.MoreGPUs = listen(t), []string{"/no/such"} }, is: os.ErrNotExist, want: "pvdrm backend"},
		"long path":          {qemu: "", cfg: func(c *Config) { c.GPUSocket = "/" + strings.Repeat("x", 107) }, is: nil, want: "shorter directory"},
		"little memory":      {qemu: "", cfg: func(c *Config) { c.MemoryMiB = 16 }, is: nil, want: "at least 128"},
		"no processors":      {qemu: "", cfg: func(c *Config) { c.CPUs = -1 }, is: nil, want: "1 to 64"},
		"display":            {qemu: "", cfg: func(c *Config) { c.Display = "hologram" }, is: nil, want: "display \"hologram\": there are none, gtk, sdl"},
		"half a screen":      {qemu: "", cfg: func(c *Config) { c.Width = 800 }, is: nil, want: "a screen of 800x0 pixels"},
		"huge screen":        {qemu: "", cfg: func(c *Config) { c.Width, c.Height = 4096, 800 }, is: nil, want: "1 to 4095"},
		"accelerator":        {qemu: fakeQEMU(t, "10.0.2", ""), cfg: func(c *Config) { c.Accel = "hvf" }, is: nil, want: `unknown accelerator "hvf"`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := minimal(t, tc.qemu)
			if tc.cfg != nil {
				tc.cfg(&cfg)
			}
			qmpTimeout = old // what speaks or ends is waited for on a busy machine, too
			if name == "hangs" || name == "backend is in use" {
				qmpTimeout = 300 * time.Millisecond
			}
			_, err := Start(t.Context(), cfg)
			require.ErrorContains(t, err, tc.want)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
		})
	}
}

func TestChooseAccelerator(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	olds := []string{cpuinfoFile, kvmFile, bootIDFile}
	defer func() { cpuinfoFile, kvmFile, bootIDFile = olds[0], olds[1], olds[2] }()
	intel, amd, none := file("intel", "processor\t: 0\nflags\t\t: fpu vmx sse\n"), file("amd", "flags\t\t: fpu svm\n"), file("none", "flags\t\t: fpu vmxish sse\nbugs: vmx\n")
	kvm, missing := file("kvm", ""), filepath.Join(dir, "missing")
	bootIDFile = file("boot", "id-1")

	// The fake QEMU fails, so KVM that has to prove itself does not.
	tries := filepath.Join(dir, "tries")
	path := fakeQEMU(t, "10.0.2", "echo >> "+tries+"; echo no >&2; exit 1")
	qemu := QEMU{path, Version{10, 0, 2}}
	cfg := minimal(t, path)
	cfg.Initrd, cfg.CacheDir = cfg.Kernel, t.TempDir()
	for name, tc := range map[string]struct {
		accel, cpuinfo, kvm string
		want, reason, err   string
	}{
		"asked for TCG":        {accel: TCG, cpuinfo: intel, kvm: kvm, want: TCG, reason: "asked for", err: ""},
		"asked for KVM":        {accel: KVM, cpuinfo: amd, kvm: kvm, want: KVM, reason: "asked for", err: ""},
		"KVM without flags":    {accel: KVM, cpuinfo: none, kvm: kvm, want: "", reason: "", err: "KVM cannot be used: the processor offers no"},
		"no flags":             {accel: Auto, cpuinfo: none, kvm: kvm, want: TCG, reason: "neither vmx nor svm", err: ""},
		"no device":            {accel: "", cpuinfo: intel, kvm: missing, want: TCG, reason: "is missing", err: ""},
		"flags, but no proof":  {accel: Auto, cpuinfo: intel, kvm: kvm, want: TCG, reason: "does not boot under it", err: ""},
		"flags, and no memory": {accel: Auto, cpuinfo: amd, kvm: kvm, want: TCG, reason: "does not boot under it", err: ""},
	} {
		t.Run(name, func(t *testing.T) {
			cpuinfoFile, kvmFile = tc.cpuinfo, tc.kvm
			cfg := cfg
			cfg.Accel = tc.accel
			if name == "flags, and no memory" {
				cfg.CacheDir = ""
			}
			a, err := ChooseAccelerator(t.Context(), qemu, cfg)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, a.Name)
			require.Contains(t, a.Reason, tc.reason)
		})
	}

	cpuinfoFile, kvmFile = intel, kvm
	cfg.Accel = Auto
	count := func() int {
		b, err := os.ReadFile(tries)
		require.NoError(t, err)
		return len(b)
	}
	choose := func() Accelerator {
		a, err := ChooseAccelerator(t.Context(), qemu, cfg)
		require.NoError(t, err)
		return a
	}
	first := choose()
	before := count()
	require.Equal(t, first, choose())
	require.Equal(t, before, count(), "the result is remembered")
	qemu.Version.Micro++
	choose()
	require.Equal(t, before+1, count(), "another QEMU tries again")
	bootIDFile = file("boot2", "id-2")
	choose()
	require.Equal(t, before+2, count(), "another boot tries again")
	require.NoError(t, os.WriteFile(filepath.Join(cfg.CacheDir, "accelerator.json"), []byte("{damaged"), 0o644))
	choose()
	require.Equal(t, before+3, count(), "a damaged memory is none")
	left, err := filepath.Glob(filepath.Join(cfg.CacheDir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestArguments(t *testing.T) {
	cfg := Config{MemoryMiB: 300, CPUs: 3, Kernel: "/k", Initrd: "/i", Append: "extra=1", GPUSocket: "/run/a,b", ExtraArgs: []string{"-device", "x"}}
	run := strings.Join(arguments(cfg, TCG, false), " ")
	for _, want := range []string{"memory-backend-memfd,id=mem,share=on,seal=on,size=300M", "-smp 3,sockets=3", "-accel tcg", "-kernel /k", "-initrd /i",
		" psi=0 lsm= maxcpus=1 noreplace-smp extra=1 ", "socket,id=gpu,path=/run/a,,b", "vhost-user-gpu-pci", "chardev=control,name=pvdrm.control", "-sandbox on", "panic=-1"} {
		require.Contains(t, run, want)
	}
	require.True(t, strings.HasSuffix(run, " -device x"))
	cfg.Shares = []Share{{Dir: "/a,b", Tag: "one"}, {Dir: "/c", Tag: "two", Writable: true}}
	shared := strings.Join(arguments(cfg, TCG, false), " ")
	require.Contains(t, shared, "-fsdev local,id=one,path=/a,,b,security_model=none,multidevs=remap,readonly=on -device virtio-9p-pci,fsdev=one,mount_tag=one")
	require.Contains(t, shared, "-fsdev local,id=two,path=/c,security_model=none,multidevs=remap -device virtio-9p-pci,fsdev=two,mount_tag=two")
	cfg.Shares = nil
	require.Contains(t, run, "-cpu qemu64,")
	cfg.CPU = "max,-la57"
	require.Contains(t, strings.Join(arguments(cfg, TCG, false), " "), "-cpu max,-la57 ")
	require.Contains(t, strings.Join(arguments(cfg, KVM, false), " "), "-cpu max,-la57 ")
	cfg.CPU = ""
	cfg.MoreGPUs = []string{"/run/c,d", "/run/e"}
	several := strings.Join(arguments(cfg, TCG, false), " ")
	require.Contains(t, several, "-chardev socket,id=gpu-1,path=/run/c,,d -device vhost-user-gpu-pci,id=gpu1,chardev=gpu-1 ")
	require.Contains(t, several, "-chardev socket,id=gpu-2,path=/run/e -device vhost-user-gpu-pci,id=gpu2,chardev=gpu-2 ")
	cfg.MoreGPUs = nil
	person := strings.Join(arguments(cfg, KVM, true), " ")
	require.Contains(t, person, "-accel kvm -cpu host")
	require.Contains(t, person, "-serial mon:stdio")
	require.NotContains(t, person, "fd=")
	require.NotContains(t, person, "mitigations=off")
	cfg.PCISocket = `/run/"f`
	require.Contains(t, strings.Join(arguments(cfg, TCG, false), " "), `-device {"driver":"vfio-user-pci","x-no-posted-writes":true,"x-msg-timeout":60000,"socket":{"type":"unix","path":"/run/\"f"}}`)
	cfg.PCISocket = ""
	cfg.GPUSocket, cfg.Initrd = "", ""
	plain := strings.Join(arguments(cfg, TCG, true), " ")
	require.NotContains(t, plain, "gpu")
	require.NotContains(t, plain, "initrd")
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"plain-1.2,a=b:/x": "plain-1.2,a=b:/x", "": "''", "two words": "'two words'", "it's": `'it'\''s'`, "$x": "'$x'",
	} {
		require.Equal(t, want, quote(word))
	}
}

func TestConsole(t *testing.T) {
	var seen bytes.Buffer
	c := &console{to: &seen}
	long := strings.Repeat("early\n", consoleTail)
	for _, s := range []string{long, "\x1b[1;31mred\x1b[0m\r\n\x07bell \xff\n\n", "[ 1.0] Kernel panic - not sync", "ing: no \x1b[2Jinit\r\n---[ end"} {
		n, err := c.Write([]byte(s))
		require.NoError(t, err)
		require.Equal(t, len(s), n)
	}
	require.Greater(t, seen.Len(), len(long))
	require.Len(t, c.text(), consoleTail)
	words, before := c.panicked()
	require.Equal(t, "no init", words)
	require.Equal(t, "  | [ 1.0] Kernel panic - not syncing: no init", lastLines(before, 1))
	require.Equal(t, "  | red\n  | bell\n  | [ 1.0] Kernel panic - not syncing: no init\n  | ---[ end", lastLines(c.text(), 4))
	require.Empty(t, lastLines("", 5))
	words, _ = (&console{}).panicked()
	require.Empty(t, words)

	// An audience that fails is not asked again, and the guest does not notice.
	failing := &failAfter{1}
	c = &console{to: failing}
	for range 3 {
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
	}
	require.Equal(t, -1, failing.left)
	require.Equal(t, "xxx", c.text())
}

type failAfter struct{ left int }

func (f *failAfter) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errors.New("closed")
	}
	return len(p), nil
}

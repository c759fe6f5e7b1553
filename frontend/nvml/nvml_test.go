package nvml

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
	"pvdrm/hypercall"
	"pvdrm/internal/progmem/progmemtest"
)

// program is one that calls the library, on a fake GPU and by a clock of its own.
type program struct {
	*testing.T
	gpu   *cudatest.GPU
	mem   *progmemtest.Memory
	lib   *Library
	room  uint64 // 4096 bytes
	usage hypercall.Usage
	fails error // of Usage
	now   time.Time
	slept time.Duration
}

// file is a file of the program.
type file struct {
	drm.File
	p *program
}

func (f file) Usage() (hypercall.Usage, error) {
	f.p.usage.NowNS = uint64(f.p.now.UnixNano())
	return f.p.usage, f.p.fails
}

// byName are the indices of entry points.
var byName = sync.OnceValue(func() map[string]int {
	indices := map[string]int{}
	for i, s := range Symbols() {
		indices[s.Name] = i
	}
	return indices
})

func newProgram(t *testing.T) *program {
	p := &program{T: t, gpu: cudatest.NewGPU(t), mem: new(progmemtest.Memory), now: time.Unix(1e9, 0)}
	p.room = p.mem.Keep(make([]byte, 4096))
	p.usage = hypercall.Usage{VRAM: 64 << 20, VRAMFree: 48 << 20}
	p.lib = New(Config{
		Open: []Opener{func() (File, error) {
			f, err := p.gpu.Opener()
			return file{f, p}, err
		}},
		Memory: p.mem, Logf: t.Logf, Proc: t.TempDir(),
		Now: func() time.Time { return p.now },
		Sleep: func(d time.Duration) {
			p.slept += d
			p.now = p.now.Add(d)
		},
	})
	return p
}

// started is newProgram after nvmlInit.
func started(t *testing.T) *program {
	p := newProgram(t)
	p.ok("nvmlInit_v2")
	t.Cleanup(func() { p.ok("nvmlShutdown") })
	return p
}

func (p *program) call(name string, args ...uint64) Result {
	p.Helper()
	i, ok := byName()[name]
	require.True(p, ok, name)
	require.Len(p, args, Symbols()[i].Args, name)
	var words [MaxArgs]uint64
	copy(words[:], args)
	return p.lib.Call(i, &words)
}

func (p *program) gives(want Result, name string, args ...uint64) {
	p.Helper()
	require.Equal(p, want, p.call(name, args...), "%s(%#x)", name, args)
}

func (p *program) ok(name string, args ...uint64) { p.Helper(); p.gives(Success, name, args...) }

// bytes reads the program's memory.
func (p *program) bytes(at uint64, n int) []byte {
	b := make([]byte, n)
	require.NoError(p, p.mem.Read(b, at))
	return b
}

// words32 reads n numbers from the room on.
func (p *program) words32(n int) []uint32 {
	var list []uint32
	for b := p.bytes(p.room, 4*n); len(b) > 0; b = b[4:] {
		list = append(list, le32(b))
	}
	return list
}

// put writes numbers of 32 bits to the room, from a byte on.
func (p *program) put(at uint64, numbers ...uint32) {
	require.NoError(p, p.mem.Write(p.room+at, put32(nil, numbers...)))
}

func (p *program) text(at uint64) string {
	s, _, _ := strings.Cut(string(p.bytes(at, 256)), "\x00")
	return s
}

func TestInitIsCounted(t *testing.T) {
	p := newProgram(t)
	p.gives(ErrUninitialized, "nvmlShutdown")
	p.gives(ErrUninitialized, "nvmlDeviceGetCount_v2", p.room)
	p.gives(ErrUninitialized, "nvmlDeviceGetName", 0, 0, 0)
	p.gives(ErrUninitialized, "nvmlDeviceGetTemperature", 0, 0, 0)
	p.ok("nvmlInit")
	p.ok("nvmlSystemGetCudaDriverVersion", p.room)
	require.EqualValues(t, cuda.DriverVersion, le32(p.bytes(p.room, 4)))
	p.ok("nvmlInitWithFlags", 1)
	p.gives(ErrInvalidArgument, "nvmlInitWithFlags", 4)
	require.Equal(t, 1, p.gpu.Open)
	p.ok("nvmlShutdown")
	p.ok("nvmlDeviceGetCount_v2", p.room)
	p.ok("nvmlShutdown")
	require.Zero(t, p.gpu.Open)
	p.gives(ErrUninitialized, "nvmlDeviceGetCount_v2", p.room)
	p.ok("nvmlInit_v2")
	p.ok("nvmlDeviceGetHandleByIndex_v2", 0, p.room)
	p.ok("nvmlShutdown")
}

// Of two threads that call nvmlShutdown at once for one nvmlInit, the second finds the library open
// when it looks and closed when its turn comes.
func TestShutdownsOfThreads(t *testing.T) {
	p := newProgram(t)
	require.Equal(t, ErrUninitialized, resultOf(p.lib.shutdown()))
	p.ok("nvmlInit_v2")
	p.ok("nvmlDeviceGetCount_v2", p.room)
	p.ok("nvmlShutdown")
}

func TestInitWithoutADevice(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Result
	}{{syscall.ENODEV, ErrDriverNotLoaded}, {syscall.ENOENT, ErrDriverNotLoaded}, {syscall.EACCES, ErrNoPermission}} {
		p := newProgram(t)
		p.gpu.FailNext(1, "open", c.err)
		p.gives(c.want, "nvmlInit_v2")
		p.gives(ErrUninitialized, "nvmlShutdown")
		p.ok("nvmlInit_v2")
		p.ok("nvmlShutdown")
	}
	p := newProgram(t)
	p.gpu.Name = "nouveau"
	p.gives(ErrLibRMVersion, "nvmlInit_v2")
}

func TestDevice(t *testing.T) {
	p := started(t)
	const dev = deviceHandle
	p.ok("nvmlDeviceGetCount_v2", p.room)
	require.Equal(t, []uint32{1}, p.words32(1))
	p.ok("nvmlDeviceGetHandleByIndex_v2", 1<<32, p.room)
	require.EqualValues(t, dev, p.mem.Word(p.room), "the upper half of an index is not defined")
	p.gives(ErrInvalidArgument, "nvmlDeviceGetHandleByIndex_v2", 1, p.room)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetHandleByIndex_v2", 0, 0)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetHandleByIndex_v2", 0, 8)

	p.ok("nvmlDeviceGetUUID", dev, p.room, 96)
	id := p.text(p.room)
	require.Regexp(t, `^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, id)
	p.gives(ErrInsufficientSize, "nvmlDeviceGetUUID", dev, p.room, uint64(len(id)))
	p.ok("nvmlDeviceGetHandleByUUID", p.room, p.room+512)
	require.EqualValues(t, dev, p.mem.Word(p.room+512))
	for text, want := range map[string]Result{"": ErrNotFound, "GPU-1": ErrNotFound, id + "0": ErrNotFound, strings.Repeat("x", 9000): ErrInvalidArgument} {
		p.gives(want, "nvmlDeviceGetHandleByUUID", p.mem.Keep([]byte(text+"\x00")), p.room)
	}
	for text, want := range map[string]Result{"0000:00:00.0": Success, "00000000:00:00.0": Success, "0:0:0": Success, "00:00.0": Success,
		"0000:01:00.0": ErrNotFound, "ffffffff:00:00.0": ErrNotFound, "": ErrInvalidArgument, "here": ErrInvalidArgument, "000000000:00:00.0": ErrInvalidArgument} {
		p.gives(want, "nvmlDeviceGetHandleByPciBusId_v2", p.mem.Keep([]byte(text+"\x00")), p.room)
	}
	p.gives(ErrNotFound, "nvmlDeviceGetHandleBySerial", p.mem.Keep([]byte("1\x00")), p.room)

	p.ok("nvmlDeviceGetName", dev, p.room, 64)
	require.NotEmpty(t, p.text(p.room))
	p.gives(ErrInsufficientSize, "nvmlDeviceGetName", dev, p.room, 0)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetName", dev+1, p.room, 64)
	p.ok("nvmlDeviceGetPciInfo_v3", dev, p.room)
	require.Equal(t, "0000:00:00.0", p.text(p.room))
	require.Equal(t, "00000000:00:00.0", p.text(p.room+36))
	p.ok("nvmlDeviceGetArchitecture", dev, p.room)
	require.Equal(t, []uint32{6}, p.words32(1))
	p.ok("nvmlDeviceGetCudaComputeCapability", dev, p.room, p.room+4)
	require.Equal(t, []uint32{7, 5}, p.words32(2))
	p.ok("nvmlDeviceGetNumGpuCores", dev, p.room)
	require.Equal(t, []uint32{4 * 64}, p.words32(1))
	p.ok("nvmlDeviceGetMemoryBusWidth", dev, p.room)
	require.Equal(t, []uint32{256}, p.words32(1))
	p.gives(ErrNotSupported, "nvmlDeviceGetTemperature", dev, 0, p.room)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetTemperature", dev, 0, 0)
	p.gives(ErrNoPermission, "nvmlDeviceSetPowerManagementLimit", dev, 100000)
	p.gives(ErrInvalidArgument, "nvmlUnitGetFanSpeedInfo", 8, p.room)
	p.gives(ErrNotSupported, "nvmlEventSetCreate", p.room)
	require.Equal(t, ErrFunctionNotFound, p.lib.Call(len(Symbols()), nil))
}

func TestUUIDStruct(t *testing.T) {
	p := started(t)
	p.ok("nvmlDeviceGetUUID", deviceHandle, p.room+8, 41)
	p.put(0, 52|1<<24, 1)
	p.ok("nvmlDeviceGetHandleByUUIDV", p.room, p.room+512)
	p.put(4, 2)
	p.gives(ErrNotFound, "nvmlDeviceGetHandleByUUIDV", p.room, p.room+512)
	id := p.lib.devices[0].UUID()
	require.NoError(t, p.mem.Write(p.room+8, id[:]))
	p.ok("nvmlDeviceGetHandleByUUIDV", p.room, p.room+512)
	p.put(4, 3)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetHandleByUUIDV", p.room, p.room+512)
	p.put(0, 52)
	p.gives(ErrVersionMismatch, "nvmlDeviceGetHandleByUUIDV", p.room, p.room+512)
}

func TestMemoryInfo(t *testing.T) {
	p := started(t)
	p.ok("nvmlDeviceGetMemoryInfo", deviceHandle, p.room)
	for i, want := range []uint64{64 << 20, 48 << 20, 16 << 20} {
		require.Equal(t, want, p.mem.Word(p.room+uint64(i)*8))
	}
	p.put(0, 40|2<<24, 0)
	p.ok("nvmlDeviceGetMemoryInfo_v2", deviceHandle, p.room)
	for i, want := range []uint64{40 | 2<<24, 64 << 20, 0, 48 << 20, 16 << 20} {
		require.Equal(t, want, p.mem.Word(p.room+uint64(i)*8))
	}
	p.put(0, 40|1<<24)
	p.gives(ErrFunctionNotFound, "nvmlDeviceGetMemoryInfo_v2", deviceHandle, p.room)
	for err, want := range map[error]Result{syscall.ENODEV: ErrGPUIsLost, syscall.ENOSYS: ErrNotSupported, syscall.EPROTO: ErrUnknown} {
		p.fails = err
		p.gives(want, "nvmlDeviceGetMemoryInfo", deviceHandle, p.room)
	}
}

func TestFields(t *testing.T) {
	p := started(t)
	p.ok("nvmlDeviceGetFieldValues", deviceHandle, 3, p.room)
	for i := range 3 {
		require.EqualValues(t, ErrNotSupported, le32(p.bytes(p.room+uint64(i)*40+28, 4)))
	}
	require.Zero(t, le32(p.bytes(p.room+3*40+28, 4)))
	p.gives(ErrInvalidArgument, "nvmlDeviceGetFieldValues", deviceHandle, 0, p.room)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetFieldValues", deviceHandle, 1<<31, p.room)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetFieldValues", deviceHandle, 4096, p.room)
}

func TestProcesses(t *testing.T) {
	p := started(t)
	p.put(0, 0)
	p.ok("nvmlDeviceGetComputeRunningProcesses_v3", deviceHandle, p.room, 0)
	p.usage.Clients = []hypercall.Client{{Process: 9, VRAM: 100}, {Process: 7, VRAM: 1}, {Process: 9, VRAM: 20}}
	for _, room := range []uint32{0, 1} {
		p.put(0, room)
		p.gives(ErrInsufficientSize, "nvmlDeviceGetComputeRunningProcesses_v3", deviceHandle, p.room, p.room+8)
		require.Equal(t, []uint32{2}, p.words32(1))
	}
	p.put(0, 5)
	p.ok("nvmlDeviceGetComputeRunningProcesses_v3", deviceHandle, p.room, p.room+8)
	const none = 1<<32 - 1
	require.Equal(t, []uint32{2, 0, 7, 0, 1, 0, none, none, 9, 0, 120, 0, none, none}, p.words32(14))
	p.ok("nvmlDeviceGetComputeRunningProcesses", deviceHandle, p.room, p.room+8)
	require.Equal(t, []uint32{2, 0, 7, 0, 1, 0, 9, 0, 120, 0}, p.words32(10))
	p.gives(ErrInvalidArgument, "nvmlDeviceGetComputeRunningProcesses", deviceHandle, p.room, 0)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetComputeRunningProcesses", deviceHandle, 0, p.room)
	p.ok("nvmlDeviceGetGraphicsRunningProcesses_v3", deviceHandle, p.room, p.room+8)
	require.Equal(t, []uint32{0}, p.words32(1))

	p.put(0, 24|1<<24, 0, 2, 0, uint32(p.room+64), 0)
	p.ok("nvmlDeviceGetRunningProcessDetailList", deviceHandle, p.room)
	require.EqualValues(t, 2, le32(p.bytes(p.room+8, 4)))
	require.EqualValues(t, 9, le32(p.bytes(p.room+64+32, 4)))
	p.put(8, 1)
	p.gives(ErrInsufficientSize, "nvmlDeviceGetRunningProcessDetailList", deviceHandle, p.room)
	p.put(4, 3)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetRunningProcessDetailList", deviceHandle, p.room)
	p.put(0, 0)
	p.gives(ErrVersionMismatch, "nvmlDeviceGetRunningProcessDetailList", deviceHandle, p.room)
}

func TestProcessName(t *testing.T) {
	p := started(t)
	write := func(pid, file, text string) {
		require.NoError(t, os.MkdirAll(filepath.Join(p.lib.cfg.Proc, pid), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(p.lib.cfg.Proc, pid, file), []byte(text), 0o644))
	}
	write("12", "cmdline", "/usr/bin/python3\x00train.py\x00")
	write("13", "cmdline", "")
	write("13", "comm", "kthreadd\n")
	p.ok("nvmlSystemGetProcessName", 12, p.room, 64)
	require.Equal(t, "/usr/bin/python3", p.text(p.room))
	p.ok("nvmlSystemGetProcessName", 12, p.room, 5)
	require.Equal(t, "/usr", p.text(p.room))
	p.ok("nvmlSystemGetProcessName", 13, p.room, 1<<31)
	require.Equal(t, "kthreadd", p.text(p.room))
	p.gives(ErrNotFound, "nvmlSystemGetProcessName", 14, p.room, 64)
	p.gives(ErrInvalidArgument, "nvmlSystemGetProcessName", 12, p.room, 0)
	p.gives(ErrInvalidArgument, "nvmlSystemGetProcessName", 12, 0, 64)
}

// Rates are of the time between calls, if that is a sample period; else they are those of the last
// one, or the call waits for one.
func TestUtilization(t *testing.T) {
	p := started(t)
	client := func(pid uint32, busy time.Duration) hypercall.Client {
		return hypercall.Client{Process: pid, Timed: 1, ComputeNS: uint64(busy), CopyNS: uint64(busy / 2)}
	}
	work := func(passed, compute, copies time.Duration) {
		p.now = p.now.Add(passed)
		p.usage.ComputeNS += uint64(compute)
		p.usage.CopyNS += uint64(copies)
	}
	rates := func(compute, copies uint32) {
		t.Helper()
		p.ok("nvmlDeviceGetUtilizationRates", deviceHandle, p.room)
		require.Equal(t, []uint32{compute, copies}, p.words32(2))
	}
	p.usage.Clients = []hypercall.Client{client(5, 0)}
	rates(0, 0)
	require.Equal(t, shortestPeriod, p.slept, "the first call waits")
	work(time.Second, time.Second/4, time.Second/100)
	p.usage.Clients = []hypercall.Client{client(5, time.Second/5), client(3, time.Second/20)}
	rates(25, 1)
	work(time.Millisecond, time.Millisecond, 0)
	rates(25, 1)
	require.Equal(t, shortestPeriod, p.slept)

	p.put(0, 8)
	p.ok("nvmlDeviceGetProcessUtilization", deviceHandle, p.room+64, p.room, 0)
	require.Equal(t, []uint32{2}, p.words32(1))
	at := binary.LittleEndian.Uint64(p.bytes(p.room+64+8, 8))
	require.EqualValues(t, p.now.Add(-time.Millisecond).UnixMicro(), at)
	require.Equal(t, put32(nil, 3), p.bytes(p.room+64, 4))
	require.Equal(t, put32(nil, 5, 3, 0, 0), p.bytes(p.room+64+16, 16))
	require.Equal(t, put32(nil, 20, 10, 0, 0), p.bytes(p.room+64+48, 16))
	p.gives(ErrNotFound, "nvmlDeviceGetProcessUtilization", deviceHandle, p.room+64, p.room, at)
	p.put(0, 1)
	p.gives(ErrInsufficientSize, "nvmlDeviceGetProcessUtilization", deviceHandle, p.room+64, p.room, 0)
	p.put(0, 0)
	p.gives(ErrInsufficientSize, "nvmlDeviceGetProcessUtilization", deviceHandle, 0, p.room, 0)
	require.Equal(t, []uint32{2}, p.words32(1))

	work(time.Hour, time.Hour, 0)
	rates(0, 0)
	require.Equal(t, 2*shortestPeriod, p.slept, "an hour says nothing of the present")
	work(time.Second, time.Minute, time.Minute)
	rates(100, 100)
	p.usage.Clients = []hypercall.Client{{Process: 5}}
	work(time.Second, 0, 0)
	p.gives(ErrNotSupported, "nvmlDeviceGetProcessUtilization", deviceHandle, p.room+64, p.room, 0)
	p.fails = syscall.ENODEV
	work(time.Second, 0, 0)
	p.gives(ErrGPUIsLost, "nvmlDeviceGetUtilizationRates", deviceHandle, p.room)
}

// The clock of a backend that gives nonsense makes no rates of more than 100 %.
func TestRatesOfNonsense(t *testing.T) {
	a := sample{usage: hypercall.Usage{NowNS: 10, ComputeNS: 1 << 63, CopyNS: 3, Clients: []hypercall.Client{{Process: 1, ComputeNS: 7}}}}
	b := sample{usage: hypercall.Usage{NowNS: 5, ComputeNS: 3, CopyNS: 1 << 63, Clients: []hypercall.Client{{Process: 1, ComputeNS: 1}, {Process: 1, ComputeNS: 1 << 63}}}}
	for _, r := range []rates{between(a, b), between(b, a), between(a, a)} {
		require.LessOrEqual(t, max(r.compute, r.copies, r.processes[0].compute), uint32(100))
	}
}

// Every entry point refuses, without a device, with pointers to nowhere and with null.
func TestRowsRefuse(t *testing.T) {
	p := newProgram(t)
	for _, s := range Symbols() {
		if !s.entry.early {
			p.gives(ErrUninitialized, s.Name, make([]uint64, s.Args)...)
		}
	}
	p.ok("nvmlInit_v2")
	for _, s := range Symbols() {
		args := make([]uint64, s.Args)
		if strings.ContainsAny(s.entry.args, "dhp") {
			p.gives(ErrInvalidArgument, s.Name, args...)
		}
		for i, kind := range s.entry.args {
			args[i] = 8
			if kind == 'd' {
				args[i] = deviceHandle
			}
		}
		switch {
		case !s.Works():
			want := s.entry.result
			if strings.ContainsRune(s.entry.args, 'h') {
				want = ErrInvalidArgument
			}
			p.gives(want, s.Name, args...)
		case strings.ContainsRune(s.entry.args, 'p'):
			require.NotEqual(t, Success, p.call(s.Name, args...), s.Name)
		}
	}
	p.ok("nvmlShutdown")
}

// differs are the entry points that answer null pointers in another way than NVIDIA's library.
var differs = map[string]string{
	"nvmlDeviceGetLastBBXFlushTime": "NOT_READY: there is no such time here",
	"nvmlGetVgpuVersion":            "success, though it writes nothing",
}

// Before nvmlInit, and with null pointers, the results are those of NVIDIA's library.
func TestAnswersOfAnH100(t *testing.T) {
	p := newProgram(t)
	text, err := os.ReadFile("testdata/h100.txt")
	require.NoError(t, err)
	type recorded struct{ name, before, null string }
	var list []recorded
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] != "#" {
			list = append(list, recorded{name: f[0], before: f[1], null: f[2]})
		}
	}
	require.Greater(t, len(list), 280)
	result := func(name string, device uint64) string {
		s := Symbols()[byName()[name]]
		args := make([]uint64, s.Args)
		for i, kind := range s.entry.args {
			if kind == 'd' {
				args[i] = device
			}
		}
		return fmt.Sprint(int(p.call(name, args...)))
	}
	for _, want := range list {
		if Symbols()[byName()[want.name]].entry.early {
			require.Equal(t, "0", want.before, want.name)
			continue
		}
		require.Equal(t, want.before, result(want.name, 0), want.name)
	}
	p.ok("nvmlInit_v2")
	for _, want := range list {
		if want.null != "crash" && differs[want.name] == "" {
			require.Equal(t, want.null, result(want.name, deviceHandle), want.name)
		}
	}
	p.ok("nvmlShutdown")
}

// What is generated from the table is in the tree as it would be made now.
func TestGeneratedFiles(t *testing.T) {
	for file, want := range map[string]string{"entry/entries.c": C(), "../../docs/nvml-api.md": Page()} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(b), "run go generate ./frontend/nvml")
	}
}

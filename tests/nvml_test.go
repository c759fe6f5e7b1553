package tests

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/carrier/local"
	"pvdrm/frontend/nvml"
	"pvdrm/gpu/softgpu"
	"pvdrm/internal/progmem/progmemtest"
)

// libnvml is the management library of a program with a memory of its own.
func (h *host) libnvml(mem *progmemtest.Memory) *nvml.Library {
	return nvml.New(nvml.Config{
		Open: []nvml.Opener{func() (nvml.File, error) {
			c, err := local.Open(h.socket)
			if err != nil {
				return nil, err
			}
			file, err := frontend.NewConfig(c, frontend.Config{Unlisted: true})
			if err != nil {
				return nil, err // not a nil *frontend.File inside of an interface
			}
			return file, nil
		}},
		Memory: mem,
		Sleep:  func(time.Duration) { time.Sleep(time.Millisecond) },
		Logf:   func(string, ...any) {},
	})
}

// Whatever is called with whatever arguments, by several threads, there is an nvmlReturn_t, and no
// panic or hang.
func TestNVMLCallsOfNonsense(t *testing.T) {
	symbols := nvml.Symbols()
	byName := map[string]int{}
	var working []int
	for i, s := range symbols {
		byName[s.Name] = i
		if s.Works() || i%10 == 0 {
			working = append(working, i)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		h := startHost(t, softgpu.Config{VRAMBytes: 32 << 20})
		mem := new(progmemtest.Memory)
		l := h.libnvml(mem)
		scratch := mem.Keep(make([]byte, 8192))
		text := mem.Keep([]byte("0000:00:00.0\x00"))
		call := func(i int, args [nvml.MaxArgs]uint64) nvml.Result {
			res := l.Call(i, &args)
			require.True(t, res.Known(), "%s: %d", symbols[i].Name, int(res))
			return res
		}
		require.Equal(t, nvml.Success, call(byName["nvmlInit_v2"], [nvml.MaxArgs]uint64{}))
		require.Equal(t, nvml.Success, call(byName["nvmlDeviceGetHandleByIndex_v2"], [nvml.MaxArgs]uint64{0, scratch}))
		device := mem.Word(scratch)
		versions := []uint64{24 | 1<<24, 40 | 2<<24, 52 | 1<<24} // of structs
		words := slices.Concat([]uint64{device, device, device, device, scratch, scratch + 8, scratch + 4096, text, 0, 1, 2, 8, 64, 1<<32 - 1,
			progmemtest.Base + progmemtest.Bytes - 4, 1 << 63, ^uint64(0)}, versions)
		n := rapid.IntRange(50, 200).Draw(r, "calls")
		type request struct {
			symbol int
			args   [nvml.MaxArgs]uint64
			put    uint64
		}
		var lists [3][]request
		for i := range n {
			q := request{symbol: rapid.SampledFrom(working).Draw(r, "symbol"), put: rapid.SampledFrom(words).Draw(r, "put")}
			for a := range symbols[q.symbol].Args {
				q.args[a] = rapid.SampledFrom(words).Draw(r, "word")
			}
			lists[i%len(lists)] = append(lists[i%len(lists)], q)
		}
		var wg sync.WaitGroup
		for _, list := range lists {
			wg.Go(func() {
				for _, q := range list {
					if err := mem.Write(scratch, []byte{byte(q.put), byte(q.put >> 8), byte(q.put >> 16), byte(q.put >> 24)}); err != nil {
						panic(err)
					}
					call(q.symbol, q.args)
				}
			})
		}
		wg.Wait()
		for call(byName["nvmlShutdown"], [nvml.MaxArgs]uint64{}) == nvml.Success {
			continue
		}
		require.NoError(t, h.stop())
	})
}

// NVML lists the processes of its own guest, with their memory, and no others.
func TestNVMLShowsItsGuest(t *testing.T) {
	indices := map[string]int{}
	for i, s := range nvml.Symbols() {
		indices[s.Name] = i
	}
	// processes asks in a new program of the guest.
	processes := func(h *host) (pids []uint32, used uint64) {
		mem := new(progmemtest.Memory)
		at := mem.Keep(make([]byte, 1024))
		l := h.libnvml(mem)
		call := func(name string, args ...uint64) {
			var words [nvml.MaxArgs]uint64
			copy(words[:], args)
			require.Equal(t, nvml.Success, l.Call(indices[name], &words), name)
		}
		call("nvmlInit_v2")
		call("nvmlDeviceGetHandleByIndex_v2", 0, at)
		device := mem.Word(at)
		call("nvmlDeviceGetMemoryInfo", device, at)
		used = mem.Word(at + 16)
		require.NoError(t, mem.Write(at, []byte{8, 0, 0, 0}))
		call("nvmlDeviceGetComputeRunningProcesses_v3", device, at, at+8)
		for i := range mem.Word(at) & 0xff {
			pids = append(pids, uint32(mem.Word(at+8+24*i)))
			require.EqualValues(t, 4<<20, mem.Word(at+16+24*i))
		}
		call("nvmlShutdown")
		return pids, used
	}
	mine, other := startHost(t, softgpu.Config{}), startHost(t, softgpu.Config{})
	c, err := local.Open(mine.socket)
	require.NoError(t, err)
	file, err := frontend.New(c)
	require.NoError(t, err)
	_, err = file.GemNew(4<<20, drm.DomainVRAM, 0)
	require.NoError(t, err)
	pids, used := processes(mine)
	require.Equal(t, []uint32{uint32(os.Getpid())}, pids)
	require.GreaterOrEqual(t, used, uint64(4<<20))
	pids, used = processes(other)
	require.Empty(t, pids)
	require.Less(t, used, uint64(4<<20))
	require.NoError(t, file.Close())
	require.NoError(t, mine.stop())
	require.NoError(t, other.stop())
}

// The library exports what its table lists and nvmlErrorString, and nothing else.
func TestExportsOfLibnvml(t *testing.T) {
	dir, err := libcudaDir()
	require.NoError(t, err)
	f, err := elf.Open(filepath.Join(dir, "libnvidia-ml.so.1"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	name, err := f.DynString(elf.DT_SONAME)
	require.NoError(t, err)
	require.Equal(t, []string{"libnvidia-ml.so.1"}, name)
	syms, err := f.DynamicSymbols()
	require.NoError(t, err)
	got, want := map[string]bool{}, map[string]bool{"nvmlErrorString": true}
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) == elf.STB_GLOBAL {
			got[s.Name] = true
		}
	}
	for _, s := range nvml.Symbols() {
		want[s.Name] = true
	}
	require.Equal(t, want, got)
}

// Where the part in Go is missing, calls fail and a line says why.
func TestNVMLWithoutItsOtherPart(t *testing.T) {
	lib, err := libcudaDir()
	require.NoError(t, err)
	clients, err := clients()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, file := range []string{"libcuda.so.1", "libnvidia-ml.so.1"} {
		b, err := os.ReadFile(filepath.Join(lib, file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), b, 0o644))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(clients.path, "nvml"))
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "libnvidia-ml: cannot load "+filepath.Join(dir, "libpvdrm-nvml.so"))
	require.Contains(t, string(out), "install it beside libnvidia-ml.so.1")
}

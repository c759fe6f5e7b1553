package rt

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is the runtime of a major version on a driver that notes its calls (testdata/fake.c).
type program struct {
	t    *testing.T
	to   io.Writer
	from *bufio.Scanner
}

// compiled has the runtime of each major version with the fake driver. The programs lie in a folder
// of TestMain's.
var (
	compiled = map[int]string{}
	folder   string
)

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "pvdrm-runtime-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

func compile(t *testing.T, major int) string {
	t.Helper()
	if compiled[major] != "" {
		return compiled[major]
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		require.Empty(t, os.Getenv("CI"), err)
		t.Skip("no C compiler")
	}
	var headers string
	for _, name := range []string{"c/driver.h", "c/graph.h"} {
		header, err := os.ReadFile(name)
		require.NoError(t, err)
		headers += string(header)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "fakes.def"), []byte(fakes(headers)), 0o600))
	sources, err := filepath.Glob("c/*.c")
	require.NoError(t, err)
	binary := filepath.Join(folder, strconv.Itoa(major))
	args := []string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-rdynamic", "-pthread", fmt.Sprintf("-DMAJOR=%d", major), "-I" + folder, "-o", binary}
	out, err := exec.Command("gcc", append(append(args, sources...), "testdata/fake.c", "-ldl")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	compiled[major] = binary
	return binary
}

// start runs the runtime of a major version.
func start(t *testing.T, major int) *program {
	t.Helper()
	cmd := exec.Command(compile(t, major))
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	require.NoError(t, err)
	from, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = to.Close()
		require.NoError(t, cmd.Wait())
	})
	return &program{t: t, to: to, from: bufio.NewScanner(from)}
}

// started is start for a thread that has the primary context already.
func started(t *testing.T, major int) *program {
	t.Helper()
	p := start(t, major)
	p.tell("set cuDevicePrimaryCtxRetain 4096")
	p.gives(0, "cudaFree 0", "cuInit 0", "cuCtxGetCurrent *", "cuDevicePrimaryCtxRetain * 0", "cuCtxSetCurrent 4096", "cuMemFree_v2 0")
	return p
}

var (
	prototype = regexp.MustCompile(`(?s)CUresult (cu\w+)\(([^)]*)\)`)
	answer4   = regexp.MustCompile(`^(int|unsigned|CUdevice|float) \*\w+$`)
	answer8   = regexp.MustCompile(`^(CU\w+|size_t|uint64_t) \*\w+$|^void \*\*(address|function)$`)
	structure = regexp.MustCompile(`^(const )?struct \w+ \*\w+$`)
	integer   = regexp.MustCompile(`^(int|unsigned|CUdevice|uint32_t) \w+$`)
)

// fakes lists the functions of headers with the kinds of their arguments, for testdata/fake.c.
func fakes(header string) string {
	var b strings.Builder
	for _, m := range prototype.FindAllStringSubmatch(header, -1) {
		kinds := ""
		for argument := range strings.SplitSeq(m[2], ",") {
			argument = strings.TrimSpace(argument)
			switch {
			case argument == "void":
			case strings.HasPrefix(argument, "unsigned char "):
				kinds += "c"
			case argument == "int *options" || argument == "int *library_options":
				kinds += "w"
			case answer4.MatchString(argument):
				kinds += "o"
			case answer8.MatchString(argument):
				kinds += "p"
			case structure.MatchString(argument):
				kinds += "s"
			case integer.MatchString(argument):
				kinds += "i"
			default:
				kinds += "w"
			}
		}
		fmt.Fprintf(&b, "FAKE(%s, %q)\n", m[1], kinds)
	}
	return b.String()
}

func (p *program) tell(line string) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.to, line)
	require.NoError(p.t, err)
}

func (p *program) line() string {
	p.t.Helper()
	require.True(p.t, p.from.Scan(), "the program has ended")
	return p.from.Text()
}

// gives calls a function of the runtime, and checks its result and its calls of the driver.
func (p *program) gives(want int, call string, calls ...string) {
	p.t.Helper()
	p.tell("call " + call)
	var noted []string
	for {
		line := p.line()
		if result, ok := strings.CutPrefix(line, "= "); ok {
			require.Equal(p.t, strconv.Itoa(want), result, call)
			break
		}
		noted = append(noted, line)
	}
	require.Equal(p.t, calls, noted, call)
}

// bytes returns memory of the program.
func (p *program) bytes(at, n int) []byte {
	p.t.Helper()
	p.tell(fmt.Sprintf("bytes @%d %d", at, n))
	b, err := hex.DecodeString(p.line())
	require.NoError(p.t, err)
	return b
}

func (p *program) word(at int) uint64 {
	p.t.Helper()
	return binary.LittleEndian.Uint64(p.bytes(at, 8))
}

func forEachMajor(t *testing.T, test func(t *testing.T, major int)) {
	for _, major := range []int{11, 12, 13} {
		t.Run(strconv.Itoa(major), func(t *testing.T) { test(t, major) })
	}
}

// Which call of the driver a copy is, by its kind, its stream and whether it waits.
func TestKindsOfCopies(t *testing.T) {
	p := started(t, 12)
	const rows = "cuMemcpy2DAsync_v2"
	for kind, name := range map[int]string{1: "cuMemcpyHtoD_v2", 2: "cuMemcpyDtoH_v2", 3: "cuMemcpyDtoD_v2", 4: "cuMemcpy"} {
		async := strings.TrimSuffix(name, "_v2") + "Async" + name[len(strings.TrimSuffix(name, "_v2")):]
		p.gives(0, fmt.Sprintf("cudaMemcpy 10 20 64 %d", kind), name+" 10 20 64")
		p.gives(0, fmt.Sprintf("cudaMemcpyAsync 10 20 64 %d 7", kind), async+" 10 20 64 7")
		p.gives(0, fmt.Sprintf("cudaMemcpyAsync_ptsz 10 20 64 %d 0", kind), async+" 10 20 64 2")
		p.gives(0, fmt.Sprintf("cudaMemcpy_ptds 10 20 64 %d", kind), async+" 10 20 64 2", "cuStreamSynchronize 2")
		p.tell("fail " + async + " 700")
		p.gives(700, fmt.Sprintf("cudaMemcpy_ptds 10 20 64 %d", kind), async+" 10 20 64 2")
	}
	// Copies within the program are ones of rows, which the driver orders with the stream.
	p.tell("call cudaMemcpy 10 20 64 0")
	require.Contains(t, p.line(), rows)
	require.Equal(t, "cuStreamSynchronize 0", p.line())
	require.Equal(t, "= 0", p.line())
	for _, kind := range []string{"5", "-1"} {
		p.gives(21, "cudaMemcpy 10 20 64 "+kind)
		p.gives(21, "cudaMemcpyAsync 10 20 64 "+kind+" 7")
	}
	p.gives(12, "cudaMemcpy2D 10 16 20 16 17 2 1")
	p.tell("set cuDeviceGetCount 1")
	p.gives(101, "cudaMemcpyPeer 10 0 20 1 64", "cuDeviceGetCount *")
	p.gives(101, "cudaMemcpyPeer 10 -1 20 0 64")
	p.gives(0, "cudaMemcpyPeer 10 0 20 1 0")
	p.gives(0, "cudaMemcpyPeer 10 0 20 0 64", "cuMemcpyDtoD_v2 10 20 64")
	p.gives(13, "cudaMemcpyToSymbol 10 20 64 0 1")
	p.gives(1, "cudaMemcpyToSymbol 10 0 64 0 1")
}

func TestFills(t *testing.T) {
	p := started(t, 12)
	p.gives(0, "cudaMemset 10 0x1ff 3", "cuMemsetD8_v2 10 255 3")
	p.gives(0, "cudaMemset_ptds 10 1 3", "cuMemsetD8_v2_ptds 10 1 3")
	p.gives(0, "cudaMemsetAsync 10 1 3 7", "cuMemsetD8Async 10 1 3 7")
	p.gives(0, "cudaMemset2D 10 16 1 8 2", "cuMemsetD2D8_v2 10 16 1 8 2")
	p.gives(0, "cudaMemset 0 1 0")
	p.gives(0, "cudaMemset2D 0 16 1 0 2")
}

// The properties of a device have their attributes where the header of each major version has
// them, and nothing beyond the structure is written.
func TestProperties(t *testing.T) {
	forEachMajor(t, func(t *testing.T, version int) {
		attributes := map[int]int{296: 8, 304: 12, 308: 10, 312: 11, 320: 1, 352: 9, 360: 75, 364: 76} // by offset
		structure, call := 728, "cudaGetDeviceProperties"
		switch version {
		case 11:
			maps.Copy(attributes, map[int]int{348: 13, 388: 16, 720: 111})
		case 12:
			structure, call = 1032, "cudaGetDeviceProperties_v2"
			maps.Copy(attributes, map[int]int{348: 13, 388: 16, 720: 111, 728: 99, 776: 129})
		case 13:
			structure = 784
			attributes[780] = 143
		}
		p := start(t, version)
		p.tell("set cuDeviceTotalMem_v2 0x123456789a")
		p.tell("call " + call + " @0 0")
		for line := p.line(); !strings.HasPrefix(line, "= "); line = p.line() {
			require.Regexp(t, `^cu(Init|Device)`, line, "no context is needed")
		}
		require.EqualValues(t, 0x123456789a, p.word(288))
		for at, attribute := range attributes {
			require.EqualValues(t, 1000+attribute, binary.LittleEndian.Uint32(p.bytes(at, 4)), "attribute %d at %d", attribute, at)
		}
		require.NotEqual(t, byte(0x5a), p.bytes(structure-1, 1)[0], "all of the structure")
		require.Equal(t, []byte{0x5a, 0x5a, 0x5a, 0x5a}, p.bytes(structure, 4), "and no more")

		// Callers of CUDA 12 that know the structure of CUDA 11 get no more than that.
		if version == 12 {
			p.tell("call cudaGetDeviceProperties @2048 0")
			for line := p.line(); !strings.HasPrefix(line, "= "); {
				line = p.line()
			}
			require.Equal(t, []byte{0x5a, 0x5a, 0x5a, 0x5a}, p.bytes(2048+728, 4))
		}
		p.tell("fail cuDeviceGet 101")
		p.gives(101, call+" @4096 7", "cuInit 0", "cuDeviceGet * 7")
		require.Equal(t, byte(0x5a), p.bytes(4096, 1)[0], "a call that fails writes nothing")
	})
}

// A thread keeps its last error until cudaGetLastError; calls that go well do not clear it, and
// cudaErrorNotReady is none.
func TestErrorsThatAreKept(t *testing.T) {
	p := started(t, 12)
	p.gives(0, "cudaGetLastError")
	p.tell("fail cuMemAlloc_v2 2")
	p.gives(2, "cudaMalloc @0 64", "cuMemAlloc_v2 * 64")
	p.gives(0, "cudaFree 0", "cuMemFree_v2 0")
	p.gives(2, "cudaPeekAtLastError")
	p.gives(2, "cudaPeekAtLastError")
	p.gives(2, "cudaGetLastError")
	p.gives(0, "cudaGetLastError")
	p.gives(0, "cudaPeekAtLastError")

	p.tell("fail cuStreamQuery 600")
	p.gives(600, "cudaStreamQuery 7", "cuStreamQuery 7")
	p.gives(0, "cudaPeekAtLastError")

	// The last of several counts.
	p.gives(2, "cudaMalloc @0 64", "cuMemAlloc_v2 * 64")
	p.gives(21, "cudaMemcpy 10 20 64 9")
	p.gives(21, "cudaGetLastError")

	// An error of the context is what each call of the driver says; the runtime keeps none for it.
	p.tell("fail cuStreamQuery 700")
	p.tell("fail cuMemFree_v2 700")
	p.gives(700, "cudaStreamQuery 7", "cuStreamQuery 7")
	p.gives(700, "cudaGetLastError")
	p.gives(0, "cudaGetLastError")
	p.gives(700, "cudaFree 10", "cuMemFree_v2 10")
	p.gives(700, "cudaGetLastError")
}

// The context: the primary one unless the program has made another one current, and looked for
// again when it is gone.
func TestContext(t *testing.T) {
	p := start(t, 12)
	p.tell("set cuCtxGetCurrent 8192")
	p.gives(0, "cudaDeviceSynchronize", "cuInit 0", "cuCtxGetCurrent *", "cuCtxSynchronize")
	p.tell("fail cuCtxSynchronize 709")
	p.gives(709, "cudaDeviceSynchronize", "cuCtxSynchronize")
	p.tell("fail cuCtxSynchronize 0")
	p.tell("set cuCtxGetCurrent 0")
	p.tell("set cuDevicePrimaryCtxRetain 4096")
	p.gives(0, "cudaDeviceSynchronize", "cuInit 0", "cuCtxGetCurrent *", "cuDevicePrimaryCtxRetain * 0", "cuCtxSetCurrent 4096", "cuCtxSynchronize")
	p.tell("set cuDeviceGetCount 1")
	p.gives(0, "cudaDeviceReset", "cuInit 0", "cuDeviceGetCount *", "cuDevicePrimaryCtxReset_v2 0")
	p.gives(0, "cudaDeviceSynchronize", "cuInit 0", "cuCtxGetCurrent *", "cuDevicePrimaryCtxRetain * 0", "cuCtxSetCurrent 4096", "cuCtxSynchronize")
	p.tell("fail cuInit 100")
	p.gives(0, "cudaDeviceSynchronize", "cuCtxSynchronize")
	p.gives(100, "cudaSetDevice 0", "cuInit 0")
}

// Peers are those of the primary context.
func TestPeers(t *testing.T) {
	p := started(t, 13)
	state := []string{"cuCtxGetCurrent *", "cuDevicePrimaryCtxGetState 0 * *", "cuDevicePrimaryCtxRetain * 0", "cuDevicePrimaryCtxRelease_v2 0"}
	p.tell("set cuDeviceGetCount 1")
	p.gives(0, "cudaGetDevice @0", "cuDeviceGetCount *")
	p.tell("set cuDevicePrimaryCtxGetState 1")
	p.gives(0, "cudaDeviceEnablePeerAccess 0 0", append(slices.Concat(state, state[1:]), "cuCtxEnablePeerAccess 4096 0")...)
	p.tell("fail cuCtxEnablePeerAccess 704")
	p.gives(704, "cudaDeviceEnablePeerAccess 0 0", append(slices.Concat(state, state[1:]), "cuCtxEnablePeerAccess 4096 0")...)
	p.gives(0, "cudaDeviceDisablePeerAccess 0", append(slices.Concat(state, state[1:]), "cuCtxDisablePeerAccess 4096")...)
	p.tell("set cuCtxGetCurrent 8192")
	p.gives(49, "cudaDeviceEnablePeerAccess 0 0", state...)
	p.gives(49, "cudaDeviceDisablePeerAccess 0", state...)
	p.tell("set cuDevicePrimaryCtxGetState 0")
	p.gives(49, "cudaDeviceDisablePeerAccess 0", state[:2]...)
	p.gives(1, "cudaDeviceEnablePeerAccess 0 1")
	p.gives(101, "cudaDeviceDisablePeerAccess 7")
}

func TestStreamsAndEvents(t *testing.T) {
	p := started(t, 12)
	p.tell("set cuStreamCreate 77")
	p.gives(0, "cudaStreamCreate @0", "cuStreamCreate * 0")
	require.EqualValues(t, 77, p.word(0))
	p.gives(0, "cudaStreamCreateWithFlags @0 1", "cuStreamCreate * 1")
	p.gives(0, "cudaStreamCreateWithPriority @0 1 -5", "cuStreamCreateWithPriority * 1 -5")
	p.gives(0, "cudaEventCreate @8", "cuEventCreate * 0")
	p.gives(0, "cudaEventCreateWithFlags @8 2", "cuEventCreate * 2")
	for _, c := range []struct{ call, driver string }{
		{call: "cudaStreamSynchronize %d", driver: "cuStreamSynchronize %d"},
		{call: "cudaStreamQuery %d", driver: "cuStreamQuery %d"},
		{call: "cudaStreamWaitEvent %d 9 0", driver: "cuStreamWaitEvent %d 9 0"},
		{call: "cudaStreamGetFlags %d @16", driver: "cuStreamGetFlags %d *"},
		{call: "cudaLaunchHostFunc %d 5 6", driver: "cuLaunchHostFunc %d 5 6"},
		{call: "cudaStreamAddCallback %d 5 6 0", driver: "cuStreamAddCallback %d 5 6 0"},
	} {
		name, rest, _ := strings.Cut(c.call, " ")
		p.gives(0, fmt.Sprintf(c.call, 7), fmt.Sprintf(c.driver, 7))
		p.gives(0, fmt.Sprintf(c.call, 0), fmt.Sprintf(c.driver, 0))
		p.gives(0, name+"_ptsz "+fmt.Sprintf(rest, 7), fmt.Sprintf(c.driver, 7))
		p.gives(0, name+"_ptsz "+fmt.Sprintf(rest, 0), fmt.Sprintf(c.driver, 2)) // the thread's own
	}
	p.gives(0, "cudaEventRecord 9 7", "cuEventRecordWithFlags 9 7 0")
	p.gives(0, "cudaEventRecord_ptsz 9 0", "cuEventRecordWithFlags 9 2 0")
	p.gives(0, "cudaEventRecordWithFlags 9 7 1", "cuEventRecordWithFlags 9 7 1")
	p.gives(0, "cudaEventElapsedTime @16 8 9", "cuEventElapsedTime * 8 9")
	p.tell("fail cuEventQuery 600")
	p.gives(600, "cudaEventQuery 9", "cuEventQuery 9")
	p.gives(0, "cudaGetLastError")
	p.tell("fail cuEventSynchronize 400")
	p.gives(400, "cudaEventSynchronize 9", "cuEventSynchronize 9")
	p.gives(400, "cudaGetLastError")
	p.gives(0, "cudaEventDestroy 9", "cuEventDestroy_v2 9")
	p.gives(0, "cudaStreamDestroy 7", "cuStreamDestroy_v2 7")
}

// Occupancy of clusters takes a launch as the driver does, but for its shared memory of 64 bits.
func TestOccupancyOfClusters(t *testing.T) {
	forEachMajor(t, func(t *testing.T, version int) {
		for _, name := range []string{"OccupancyMaxActiveClusters", "OccupancyMaxPotentialClusterSize"} {
			p := started(t, version)
			p.tell("set cu" + name + " 12")
			p.gives(1, "cuda"+name+" @64 4096 @0", "cuFuncGetAttribute * 0 4096")
			p.tell("set cuStreamCreate 100")
			p.gives(0, "cudaStreamCreate @24", "cuStreamCreate * 0") // which writes the shared memory of the launch at 0
			p.gives(0, "cuda"+name+" @64 4096 @0", "cuFuncGetAttribute * 0 4096", "cu"+name+" * 4096 *")
			require.EqualValues(t, 12, uint32(p.word(64)))
			p.gives(1, "cuda"+name+" @64 4096 0")
			p.tell("fail cu" + name + " 912")
			p.gives(912, "cuda"+name+" @64 4096 @0", "cuFuncGetAttribute * 0 4096", "cu"+name+" * 4096 *")
		}
	})
}

// Allocations of no bytes are null pointers, and frees of those nothing.
func TestMemoryOfNoBytes(t *testing.T) {
	p := started(t, 12)
	for i, call := range []string{"cudaMalloc @%d 0", "cudaMallocAsync @%d 0 7", "cudaMallocFromPoolAsync @%d 0 5 7", "cudaHostAlloc @%d 0 0", "cudaMallocHost @%d 0"} {
		require.NotZero(t, p.word(8*i))
		p.gives(0, fmt.Sprintf(call, 8*i))
		require.Zero(t, p.word(8*i), call)
	}
	p.gives(0, "cudaFreeHost 0")
	p.gives(0, "cudaFreeHost 10", "cuMemFreeHost 10")
	p.gives(1, "cudaMalloc 0 0") // a wrong pointer is no signal
	p.gives(1, "cudaMalloc 8 0")
}

// Pools need no context, allocations from them do.
func TestPools(t *testing.T) {
	p := start(t, 12)
	for _, call := range []string{
		"DeviceGetDefaultMemPool * 0", "DeviceGetMemPool * 0", "DeviceSetMemPool 0 5", "MemPoolCreate * 64", "MemPoolDestroy 5", "MemPoolTrimTo 5 4096",
		"MemPoolSetAttribute 5 4 64", "MemPoolGetAttribute 5 4 64", "MemPoolSetAccess 5 64 1", "MemPoolGetAccess * 5 64",
	} {
		p.gives(0, "cuda"+strings.ReplaceAll(call, "*", "@8"), "cuInit 0", "cu"+call)
	}
}

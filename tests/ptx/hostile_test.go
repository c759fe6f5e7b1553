package ptx_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/ref"
	"pvdrm/tests/ptx/internal/random"
)

// hostilePages are what a hostile kernel finds: its input and output, and pages of each
// size that the engine treats in its own way. Some follow one another for the kernel.
// The last is large, and is there in some runs only.
var hostilePages = []random.Page{
	{Base: 0x10_0000_0000, Size: 32 << 10, ReadOnly: true},
	{Base: 0x10_0001_0000, Size: 32 << 10},
	{Base: 0x10_0002_0000, Size: 4 << 10},
	{Base: 0x10_0002_1000, Size: 4 << 10},
	{Base: 0x10_0002_2000, Size: 4 << 10, ReadOnly: true},
	{Base: 0x10_0003_0000, Size: 64 << 10},
	{Base: 0x10_0004_0000, Size: 8 << 10},
	{Base: 1<<40 - 4<<10, Size: 4 << 10},
	{Base: 0x10_0040_0000, Size: 2 << 20},
}

// globalsPage is where variables of modules lie.
var globalsPage = random.Page{Base: 0x20_0000_0000, Size: 4 << 10}

// guardedMemory is a exec.Space whose pages lie between pages that must not be touched,
// and are as little writable for the host as they are for the kernel.
type guardedMemory []guardedPage

type guardedPage struct {
	random.Page
	mem []byte
}

// newGuardedMemory makes zero pages. They are never unmapped. Those that follow one another for the kernel do so on
// the host, too, without a guard between them, as pages of a buffer do.
func newGuardedMemory(pages []random.Page) guardedMemory {
	const guard = 64 << 10
	var m guardedMemory
	var room []byte
	for i, p := range pages {
		if i == 0 || pages[i-1].Base+pages[i-1].Size != p.Base {
			size := uint64(0)
			for k := i; k < len(pages) && pages[k].Base == p.Base+size; k++ {
				size += pages[k].Size
			}
			mapped, err := unix.Mmap(-1, 0, int(size)+2*guard, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				panic(err)
			}
			room = mapped[guard:]
		}
		mem := room[:p.Size:p.Size]
		room = room[p.Size:]
		protect(mem, unix.PROT_READ|unix.PROT_WRITE)
		if p.ReadOnly {
			fillEdges(mem)
			protect(mem, unix.PROT_READ)
		}
		m = append(m, guardedPage{p, mem})
	}
	return m
}

func protect(mem []byte, prot int) {
	if err := unix.Mprotect(mem, prot); err != nil {
		panic(err)
	}
}

// fillEdges fills a page with numbers, many of which are small, large or addresses.
func fillEdges(mem []byte) {
	rng := rand.New(rand.NewPCG(17, 4))
	for i := 0; i < len(mem); i += 8 {
		x := rng.Uint64() >> rng.IntN(64)
		if rng.IntN(4) == 0 {
			p := hostilePages[rng.IntN(len(hostilePages))]
			x = p.Base + p.Size - 16 + rng.Uint64N(32)
		}
		binary.LittleEndian.PutUint64(mem[i:], x)
	}
}

// Lookup implements exec.Space.
func (m guardedMemory) Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	for _, p := range m {
		if va-p.Base < p.Size {
			prot = gpu.ProtRead | gpu.ProtWrite
			if p.ReadOnly {
				prot = gpu.ProtRead
			}
			return p.mem, p.Base, prot, true
		}
	}
	return nil, 0, 0, false
}

// reset makes the memory what it was, with a module's variables.
func (m guardedMemory) reset(image []byte) {
	for _, p := range m {
		if p.ReadOnly {
			continue
		}
		if p.Size > 1<<20 {
			if err := unix.Madvise(p.mem, unix.MADV_DONTNEED); err != nil {
				panic(err)
			}
			continue
		}
		clear(p.mem)
		if p.Base == globalsPage.Base {
			copy(p.mem, image)
		}
	}
}

// hostileRun is a kernel on one engine, and how it ended.
type hostileRun struct {
	name string
	mem  guardedMemory
	err  *gpu.LostError
}

// newHostileRuns has the engines with and without the large page.
func newHostileRuns() (with, without []*hostileRun) {
	for _, name := range []string{"interpreter", "native code", "native code of AVX2", "native code of SSE4.2", "ref"} {
		m := newGuardedMemory(append([]random.Page{globalsPage}, hostilePages...))
		with = append(with, &hostileRun{name: name, mem: m})
		without = append(without, &hostileRun{name: name, mem: m[:len(m)-1]})
	}
	return with, without
}

// hostile runs the kernel that data makes on the engines, which must agree, and must
// touch nothing else. It reports whether the kernel ran to its end.
func hostile(t *testing.T, runs []*hostileRun, data []byte) (ended bool) {
	var head [2]byte
	copy(head[:], data)
	pages := hostilePages[:len(runs[0].mem)-1]
	// One warp at a time, so that every run is the same; a thread alone for the
	// reference interpreter, which has another order of lanes.
	block := []uint32{1, 32, 32, 32, 17, 1, 32, 5}[head[1]%8]
	source := random.Hostile(data[min(2, len(data)):], pages, block == 1)
	mod, err := ptx.Load("hostile.ptx", []byte(source))
	require.NoError(t, err, source)
	l := exec.Launch{Grid: [3]uint32{1 + uint32(head[1]>>3&3), 1, 1}, Block: [3]uint32{block, 1, 1}}
	l.Params = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, pages[0].Base), pages[1].Base)

	best := exec.InUse()
	defer exec.UseISA(best)
	var first *hostileRun
	for i, r := range runs[:4] {
		prog, err := exec.Compile(mod)
		require.NoError(t, err, source)
		image, err := prog.Link(globalsPage.Base)
		require.NoError(t, err)
		k, ok := prog.Kernel("k")
		require.True(t, ok)
		r.mem.reset(image)
		l.Native = []exec.Native{exec.NativeNever, exec.NativeAtOnce, exec.NativeAtOnce, exec.NativeAtOnce}[i]
		if i >= 2 {
			exec.UseISA([]exec.ISA{exec.AVX2, exec.Plain}[i-2])
		}
		ctl := new(exec.Control)
		stop := time.AfterFunc(20*time.Second, func() { ctl.Stop(gpu.LostTimeout) })
		r.ended(t, exec.Run(k, l, r.mem, ctl, 1), source)
		stop.Stop()
		if first == nil {
			first = r
			continue
		}
		first.compare(t, r, source)
	}
	if block == 1 {
		runRefHostile(t, first, runs[4], mod, l, source)
	}
	return first.err == nil
}

// runRefHostile runs it on the reference interpreter, too.
func runRefHostile(t *testing.T, first, r *hostileRun, mod *ptx.Module, l exec.Launch, source string) {
	prog, err := ref.Compile(mod)
	require.NoError(t, err, source)
	image, err := prog.Link(globalsPage.Base)
	require.NoError(t, err)
	k, ok := prog.Kernel("k")
	require.True(t, ok)
	r.mem.reset(image)
	if r.ended(t, ref.Run(k, l, r.mem, 1<<22), source); r.err != nil && r.err.Cause == gpu.LostTimeout {
		return
	}
	first.compare(t, r, source)
}

func (r *hostileRun) ended(t *testing.T, err error, source string) {
	if r.err = nil; err == nil {
		return
	}
	if !errors.As(err, &r.err) || r.err.Cause == gpu.LostDevice || r.name != "ref" && r.err.Cause == gpu.LostTimeout {
		t.Fatalf("%s: %v\n%s", r.name, err, source)
	}
}

// compare requires that another engine did the same.
func (r *hostileRun) compare(t *testing.T, other *hostileRun, source string) {
	what := func(e *gpu.LostError) string {
		if e == nil {
			return "nothing"
		}
		return fmt.Sprintf("%s at 0x%x, write %t, block %v thread %v", e.Cause, e.Addr, e.Write, e.Block, e.Thread)
	}
	if a, b := what(r.err), what(other.err); a != b {
		t.Fatalf("%s met %s, %s met %s\n%s", r.name, a, other.name, b, source)
	}
	for i := range r.mem {
		a, b := r.mem[i].mem, other.mem[i].mem
		if bytes.Equal(a, b) {
			continue
		}
		at := 0
		for a[at] == b[at] {
			at++
		}
		at &^= 3
		t.Fatalf("memory at 0x%x: %s has %x, %s %x; both met %s\n%s", r.mem[i].Base+uint64(at), r.name, a[at:at+4], other.name, b[at:at+4], what(r.err), source)
	}
}

// FuzzHostile runs random kernels whose addresses go anywhere, interpreted and as
// native code of each width that the processor has, and threads that are alone on the reference
// interpreter as well. Every page lies between guards, so an access that leaves it
// is a fault of the host.
func FuzzHostile(f *testing.F) {
	for _, seed := range []string{"", "\x00\x01", "\x01\x00branch", "\x00\x03pages and vectors", "\x00\x0catoms", "\x01\x05\x80\xff\x00\x10\x20\x30"} {
		f.Add([]byte(seed))
	}
	with, without := newHostileRuns()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2048 {
			return // a kernel makes fewer choices
		}
		if len(data) > 0 && data[0]&7 == 1 {
			hostile(t, with, data)
		} else {
			hostile(t, without, data)
		}
	})
}

// Kernels at random: many fault, and many come to their end.
func TestHostileKernels(t *testing.T) {
	if err := exec.NativeCode(); err != nil {
		t.Log("without native code:", err)
	}
	for _, p := range hostilePages[:2] {
		require.LessOrEqual(t, uint64(random.HostileRows*random.RowBytes), p.Size)
	}
	with, _ := newHostileRuns()
	ended, n := 0, rounds(50, 150, 400)
	rng := rand.New(rand.NewPCG(1, 7))
	for range n {
		data := make([]byte, 4)
		binary.LittleEndian.PutUint32(data, rng.Uint32())
		if hostile(t, with, data) {
			ended++
		}
	}
	require.Greater(t, ended, n/10)
	require.Less(t, ended, n*9/10)
	t.Logf("%d of %d kernels ended", ended, n)
}

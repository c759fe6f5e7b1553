package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

const increments = `
.version 6.3
.target sm_70
.address_size 64
.global .align 4 .u32 counter = 40;
.visible .entry increment(.param .u64 p)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [counter];
	add.u32 %r1, %r1, 1;
	st.global.u32 [counter], %r1;
	st.global.u32 [%rd1], %r1;
	ret;
}
`

// life is a file on a software GPU with memory of both kinds, a module and a channel.
type life struct {
	*File
	dev    gpu.Device
	guest  *Guest
	mem    []byte // of object 2
	system uint64 // its address
	stream []byte // launches increment
	mu     sync.Mutex
	failed *Failure
}

func (l *life) Reached(_ uint32, _ uint64, failed *Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if failed != nil {
		l.failed = failed
	}
}
func (l *life) Ended(uint32, uint64, error) {}
func (l *life) Stirred()                    {}

func newLife(tb testing.TB) *life {
	dev, err := softgpu.New(softgpu.Config{VRAMBytes: 16 << 20})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, dev.Close()) })
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = unix.Munmap(mem) })
	return &life{dev: dev, guest: &Guest{}, mem: mem}
}

// pages are the memory as a grant.
func (l *life) pages(released *int) Pages {
	return Pages{Runs: [][]byte{l.mem}, Source: 9, Release: func() { *released++ }}
}

// begin opens the file and makes what it has.
func (l *life) begin(tb testing.TB, released *int) {
	var err error
	l.File, err = Open(l.dev, l.guest, "a", l)
	require.NoError(tb, err)
	props := l.dev.Properties()
	l.system = props.System.Base
	require.NoError(tb, l.NewVRAM(1, props.VRAM.Page))
	require.NoError(tb, l.NewSystem(2, l.pages(released)))
	_, err = l.Bind([]drm.BindOp{
		{Op: drm.BindMap, Handle: 1, Addr: props.VRAM.Base, Range: props.VRAM.Page},
		{Op: drm.BindMap, Handle: 2, Addr: l.system, Range: 4096},
	})
	require.NoError(tb, err)
	load, err := l.LoadPart(7, "m", 0, uint64(len(increments)), []byte(increments))
	require.NoError(tb, err)
	load.Compile(context.Background())
	require.NoError(tb, l.EndLoad(load))
	_, err = l.Function(7, 3, "increment")
	require.NoError(tb, err)
	_, err = l.NewChannel(5)
	require.NoError(tb, err)
	l.stream = drm.LaunchCmd{Function: 3, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Params: binary.LittleEndian.AppendUint64(nil, l.system)}.Append(nil)
}

// exec queues a stream on the channel.
func (l *life) exec(tb testing.TB, stream []byte) {
	ch, err := l.Channel(5)
	require.NoError(tb, err)
	_, err = l.Exec(ch, ch.Submitted()+1, nil, stream)
	require.NoError(tb, err)
}

// drain waits until all that was submitted is done.
func (l *life) drain(tb testing.TB) {
	ch, err := l.Channel(5)
	require.NoError(tb, err)
	for !ch.Reached(ch.Submitted()) {
		runtime.Gosched()
	}
}

func (l *life) word() uint32 { return binary.LittleEndian.Uint32(l.mem) }

// stopped is a life whose context is stopped, with three batches in the queue, and its state.
func stopped(tb testing.TB, released *int) (l *life, own []byte, written *bytes.Buffer) {
	l = newLife(tb)
	l.begin(tb, released)
	l.exec(tb, l.stream)
	l.drain(tb)
	require.EqualValues(tb, 41, l.word())
	require.NoError(tb, l.ctx.(gpu.Preempter).Preempt(context.Background()))
	l.exec(tb, l.stream)
	l.exec(tb, l.stream)
	l.exec(tb, drm.LaunchCmd{Function: 99}.Append(nil)) // there is none
	var b bytes.Buffer
	own, err := l.Snapshot(context.Background(), &b)
	require.NoError(tb, err)
	return l, own, &b
}

// A file is written down with work in its queue, built again on another device, and both go on alike.
func TestSnapshot(t *testing.T) {
	released := 0
	a, own, state := stopped(t, &released)
	b := newLife(t)
	var asked []uint32
	var err error
	b.File, err = Restore(t.Context(), b.dev, b.guest, "b", b, own, state, func(handle, source uint32, size uint64) (Pages, error) {
		asked = append(asked, handle, source, uint32(size))
		p := b.pages(&released)
		copy(b.mem, a.mem)
		return p, nil
	})
	require.NoError(t, err)
	require.Equal(t, []uint32{2, 9, 4096}, asked)
	for res := range quota.Resources {
		if res != quota.QueuedBytes && res != quota.ModuleMemory {
			require.Equal(t, a.guest.Used(res), b.guest.Used(res), res.String())
		}
	}
	require.EqualValues(t, 41, b.word(), "it is stopped")
	for _, l := range []*life{a, b} {
		require.NoError(t, l.Resume())
		l.drain(t)
		require.EqualValues(t, 43, l.word(), "two more in the queue")
		require.EqualValues(t, 4, l.failed.Seqno)
		require.ErrorIs(t, l.failed.Err, syscall.ENOENT)
		ch, err := l.NewChannel(6)
		require.NoError(t, err)
		_, err = l.Exec(ch, 1, []drm.Point{{Channel: 5, Seqno: 4}}, a.stream)
		require.NoError(t, err)
		for !ch.Reached(1) {
			runtime.Gosched()
		}
		require.EqualValues(t, 44, l.word())
		require.NoError(t, l.Unload(7))
		require.NoError(t, l.CloseObject(1))
		require.NoError(t, l.File.Close())
		for res := range quota.Resources {
			require.Zero(t, l.guest.Used(res), res.String())
		}
	}
	require.Equal(t, 2, released)
}

// allocates is a module whose context needs a heap.
const allocates = ".version 6.3\n.target sm_70\n.address_size 64\n.extern .func (.param .b64 r) malloc (.param .b64 n);\n" +
	".visible .entry f() { .reg .b64 %d; call (%d), malloc, (8); ret; }\n"

// The heap of a context is charged to the file, there and where it is restored, until it closes.
func TestSnapshotHeap(t *testing.T) {
	released := 0
	a := newLife(t)
	a.begin(t, &released)
	before := a.guest.Used(quota.VRAM)
	load, err := a.LoadPart(8, "heap", 0, uint64(len(allocates)), []byte(allocates))
	require.NoError(t, err)
	load.Compile(t.Context())
	require.NoError(t, a.EndLoad(load))
	require.NoError(t, a.Unload(8))
	used := a.guest.Used(quota.VRAM)
	require.Greater(t, used, before+8<<20)
	var state bytes.Buffer
	own, err := a.Snapshot(t.Context(), &state)
	require.NoError(t, err)
	require.Contains(t, string(own), fmt.Sprintf(`"Kept":%d`, used-before))
	restore := func(own string) (*File, *life, error) {
		b := newLife(t)
		file, err := Restore(t.Context(), b.dev, b.guest, "b", b, []byte(own), bytes.NewReader(state.Bytes()), func(uint32, uint32, uint64) (Pages, error) {
			return b.pages(&released), nil
		})
		return file, b, err
	}
	file, b, err := restore(string(own))
	require.NoError(t, err)
	require.Equal(t, used, b.guest.Used(quota.VRAM))
	require.NoError(t, file.Unload(7))
	require.NoError(t, file.CloseObject(1))
	require.Equal(t, used-before, b.guest.Used(quota.VRAM), "the heap alone")
	require.NoError(t, file.Close())
	require.Zero(t, b.guest.Used(quota.VRAM))

	lie := strings.Replace(string(own), fmt.Sprintf(`"Kept":%d,`, used-before), "", 1)
	_, b, err = restore(lie)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.Zero(t, b.guest.Used(quota.VRAM))
	require.Contains(t, lie, `"Variables":4096`)
	_, b, err = restore(strings.Replace(lie, `"Variables":4096`, fmt.Sprintf(`"Variables":%d`, used-before+4096), 1))
	require.ErrorIs(t, err, syscall.EINVAL, "as if a module had it")
	require.Zero(t, b.guest.Used(quota.VRAM))
	require.NoError(t, a.File.Close())
	require.Zero(t, a.guest.Used(quota.VRAM))
}

// A file that is loading a module or freeing a channel is EBUSY, and goes on.
func TestSnapshotBusy(t *testing.T) {
	released := 0
	l := newLife(t)
	l.begin(t, &released)
	_, err := l.LoadPart(1, "m", 0, 6, []byte("sou"))
	require.NoError(t, err)
	_, err = l.Snapshot(t.Context(), &bytes.Buffer{})
	require.ErrorIs(t, err, syscall.EBUSY)
	_, err = l.LoadPart(1, "m", 5, 6, []byte("out of order"))
	require.Error(t, err)
	fr, err := l.FreeChannel(5)
	require.NoError(t, err)
	_, err = l.Snapshot(t.Context(), &bytes.Buffer{})
	require.ErrorIs(t, err, syscall.EBUSY)
	fr.Wait()
	require.NoError(t, l.EndFree(fr))
	_, err = l.Snapshot(t.Context(), &bytes.Buffer{})
	require.NoError(t, err)
	require.NoError(t, l.File.Close())

	r := newRig(t, quota.Limits{})
	_, err = r.Snapshot(t.Context(), &bytes.Buffer{})
	require.ErrorIs(t, err, syscall.EOPNOTSUPP)
	require.ErrorIs(t, r.Resume(), syscall.EOPNOTSUPP)
	_, err = Restore(t.Context(), r.dev, r.guest, "", r, nil, &bytes.Buffer{}, nil)
	require.ErrorIs(t, err, syscall.EOPNOTSUPP)
	r.closed()
}

// FuzzRestore restores from any state of a file with a good state of its context. Whatever the state,
// an error leaves nothing behind, and a file that was restored can be closed.
func FuzzRestore(f *testing.F) {
	released := 0
	l, own, written := stopped(f, &released)
	require.NoError(f, l.File.Close())
	f.Add(own)
	f.Add(bytes.Replace(own, []byte(`"Memory":0`), []byte(`"Memory":1`), 1))
	f.Add(bytes.Replace(own, []byte(`"Submitted":4`), []byte(`"Submitted":5`), 1))
	f.Add([]byte(`{}`))
	b := newLife(f)
	pages := b.pages(&released)
	f.Fuzz(func(t *testing.T, own []byte) {
		guest := &Guest{}
		file, err := Restore(t.Context(), b.dev, guest, "b", b, own, bytes.NewReader(written.Bytes()), func(uint32, uint32, uint64) (Pages, error) { return pages, nil })
		if err == nil {
			_, err = file.Snapshot(t.Context(), &bytes.Buffer{})
			require.NoError(t, err)
			require.NoError(t, file.Close())
		}
		for res := range quota.Resources {
			require.Zero(t, guest.Used(res), res.String())
		}
		require.Zero(t, b.dev.Stats().Channels)
	})
}

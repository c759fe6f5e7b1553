package file

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// A source comes in parts, in order; what is out of order loses the whole.
func TestModuleParts(t *testing.T) {
	r := newRig(t, quota.Limits{})
	part := func(module uint32, offset, total uint64, text string) (*Load, error) {
		return r.LoadPart(module, "m", offset, total, []byte(text))
	}
	l, err := part(1, 0, 6, "sou")
	require.NoError(t, err)
	require.Nil(t, l, "it is not there yet")
	require.EqualValues(t, 6, r.guest.Used(quota.ModuleText), "all of it is charged")
	l, err = part(1, 3, 6, "rce")
	require.NoError(t, err)
	_, err = part(2, 0, 6, "source")
	require.ErrorIs(t, err, syscall.EBUSY, "one at a time")
	require.ErrorIs(t, r.Unload(1), syscall.EBUSY, "it is being compiled")
	l.Compile(t.Context())
	require.NoError(t, r.EndLoad(l))
	require.Contains(t, r.dev.Calls(), "LoadModule m source")
	require.NoError(t, r.Unload(1))
	r.nothingBut()

	for name, second := range map[string]struct {
		module        uint32
		offset, total uint64
		text          string
	}{
		"another module": {module: 2, offset: 3, total: 6, text: "rce"},
		"another size":   {module: 1, offset: 3, total: 7, text: "rce"},
		"a gap":          {module: 1, offset: 4, total: 6, text: "ce"},
		"the same again": {module: 1, offset: 2, total: 6, text: "urce"},
		"nothing":        {module: 1, offset: 3, total: 6},
		"too much":       {module: 1, offset: 3, total: 6, text: "rceX"},
		"far behind":     {module: 1, offset: 1 << 63, total: 6, text: "rce"},
	} {
		_, err := part(1, 0, 6, "sou")
		require.NoError(t, err)
		_, err = part(second.module, second.offset, second.total, second.text)
		require.ErrorIs(t, err, syscall.EINVAL, name)
		r.nothingBut()
		_, err = part(1, 3, 6, "rce")
		require.ErrorIs(t, err, syscall.EINVAL, "%s: the source is forgotten", name)
	}
	_, err = part(1, 0, 6, "sou")
	require.NoError(t, err)
	_, err = part(3, 0, 4, "fo")
	require.NoError(t, err, "a first part begins again")
	require.EqualValues(t, 4, r.guest.Used(quota.ModuleText))
	r.closed()
}

// What a module may need is bounded before its source has arrived.
func TestModuleIsCharged(t *testing.T) {
	r := newRig(t, quota.Limits{quota.ModuleText: 100, quota.Modules: 1})
	for name, c := range map[string]struct {
		module uint32
		total  uint64
		want   error
	}{
		"no id":     {total: 6, want: syscall.EINVAL},
		"empty":     {module: 1, want: syscall.EFBIG},
		"text":      {module: 1, total: 101, want: syscall.ENOSPC},
		"memory":    {module: 1, total: 32 << 20, want: syscall.EFBIG},
		"too large": {module: 1, total: drm.MaxSource + 1, want: syscall.EFBIG},
		"huge":      {module: 1, total: 1<<64 - 1, want: syscall.EFBIG},
	} {
		_, err := r.LoadPart(c.module, "m", 0, c.total, []byte("source"))
		require.ErrorIs(t, err, c.want, name)
		require.NotEmpty(t, Log(err), name)
		r.nothingBut()
	}
	r.load(1)
	_, err := r.LoadPart(1, "m", 0, 6, []byte("source"))
	require.ErrorIs(t, err, syscall.EEXIST)
	_, err = r.LoadPart(2, "m", 0, 6, []byte("source"))
	require.ErrorIs(t, err, syscall.ENOSPC, "modules")
	r.closed()
}

// A module that is refused gives back all that was charged for it, variables included.
func TestLoadFails(t *testing.T) {
	r := newRig(t, quota.Limits{quota.VRAM: 4096})
	load := func() (*Load, error) {
		l, err := r.LoadPart(1, "", 0, 6, []byte("source"))
		require.NoError(t, err)
		l.Compile(t.Context())
		return l, r.EndLoad(l)
	}
	r.dev.Load = func(_ context.Context, name string, _ []byte, reserve gpu.Reserve) error {
		require.Equal(t, "module", name)
		if err := reserve(4096); err != nil {
			return err
		}
		require.EqualValues(t, 4096, r.guest.Used(quota.VRAM))
		return errDevice
	}
	_, err := load()
	require.ErrorIs(t, err, errDevice)
	require.Equal(t, errDevice.Error(), string(Log(err)))
	r.nothingBut()
	r.dev.Load = func(_ context.Context, _ string, _ []byte, reserve gpu.Reserve) error { return reserve(8192) }
	_, err = load()
	require.ErrorIs(t, err, syscall.ENOMEM)
	r.dev.Load = func(context.Context, string, []byte, gpu.Reserve) error { panic("a bug") }
	_, err = load()
	var fault *CompilerFault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, "a bug", fault.Cause)
	r.nothingBut()

	require.Nil(t, Log(nil))
	require.Nil(t, Log(syscall.EBUSY), "it is not about the module")
	r.dev.Load = func(_ context.Context, _ string, _ []byte, reserve gpu.Reserve) error { return reserve(4096) }
	_, err = load()
	require.NoError(t, err)
	require.EqualValues(t, 4096, r.guest.Used(quota.VRAM), "as long as it is loaded")
	require.NoError(t, r.Unload(1))
	r.nothingBut()
	r.closed()
}

// What a module leaves to the context stays charged until the file closes.
func TestLoadRetains(t *testing.T) {
	r := newRig(t, quota.Limits{quota.VRAM: 16384})
	r.dev.Load = func(_ context.Context, _ string, _ []byte, reserve gpu.Reserve) error { return reserve(12288) }
	load := func() error {
		l, err := r.LoadPart(1, "", 0, 6, []byte("source"))
		require.NoError(t, err)
		l.Compile(t.Context())
		return r.EndLoad(l)
	}
	r.dev.Retains = 8192
	require.NoError(t, load())
	require.EqualValues(t, 12288, r.guest.Used(quota.VRAM))
	require.NoError(t, r.Unload(1))
	require.EqualValues(t, 8192, r.guest.Used(quota.VRAM))
	require.ErrorIs(t, load(), syscall.ENOMEM, "not even for a module that leaves nothing")
	require.EqualValues(t, 8192, r.guest.Used(quota.VRAM))
	r.closed()
}

// A file that closes while a module waits or compiles gives back what that has, too.
func TestCloseWhileCompiled(t *testing.T) {
	r := newRig(t, quota.Limits{})
	r.dev.Keeps = 1000
	r.dev.Load = func(_ context.Context, _ string, _ []byte, reserve gpu.Reserve) error { return reserve(4096) }
	l, err := r.LoadPart(1, "m", 0, 6, []byte("source"))
	require.NoError(t, err)
	l.Compile(t.Context())
	require.EqualValues(t, 4096, r.guest.Used(quota.VRAM))
	r.closed()

	r = newRig(t, quota.Limits{})
	l, err = r.LoadPart(1, "m", 0, 6, []byte("source"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.dev.Load = func(ctx context.Context, _ string, _ []byte, _ gpu.Reserve) error { return context.Cause(ctx) }
	l.Compile(ctx)
	r.closed()
}

// Machine code has a quota of its own, for as long as it is loaded, and a device that does not run it gets none.
func TestMachineCode(t *testing.T) {
	r := newRig(t, quota.Limits{quota.ModuleImage: 10000, quota.ModuleText: 1000})
	code := append([]byte("\x7fELF"), make([]byte, 5996)...)
	_, err := r.LoadPart(1, "m", 0, 6000, code[:4096])
	require.ErrorIs(t, err, syscall.ENOEXEC)
	require.Contains(t, string(Log(err)), "PTX")
	r.dev.Images = true
	part := func(id uint32, at, n uint64) (*Load, error) { return r.LoadPart(id, "m", at, 6000, code[at:at+n]) }
	_, err = part(1, 0, 4096)
	require.NoError(t, err)
	require.EqualValues(t, 6000, r.guest.Used(quota.ModuleImage))
	require.Zero(t, r.guest.Used(quota.ModuleText))
	_, err = part(1, 4000, 4)
	require.ErrorIs(t, err, syscall.EINVAL, "out of order")
	require.Zero(t, r.guest.Used(quota.ModuleImage))
	_, err = part(1, 0, 4096)
	require.NoError(t, err)
	l, err := part(1, 4096, 1904)
	require.NoError(t, err)
	r.dev.Load = func(_ context.Context, _ string, source []byte, _ gpu.Reserve) error {
		require.Equal(t, code, source)
		return nil
	}
	l.Compile(t.Context())
	require.NoError(t, r.EndLoad(l))
	require.EqualValues(t, 6000, r.guest.Used(quota.ModuleImage))
	_, err = part(2, 0, 4096)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, r.Unload(1))
	_, err = part(2, 0, 4096)
	require.NoError(t, err)
	_, err = r.LoadPart(2, "m", 0, drm.MaxImage+1, code)
	require.ErrorIs(t, err, syscall.EFBIG)
	_, err = part(2, 0, 4096) // and never more
	require.NoError(t, err)
	r.closed()
}

// A device whose driver knows no more than the frontend answers no questions.
func TestQuestions(t *testing.T) {
	r := newRig(t, quota.Limits{})
	_, err := r.Ask(drm.AskClusters, 0, nil)
	require.ErrorIs(t, err, syscall.EOPNOTSUPP)
	r.closed()
}

func TestFunctions(t *testing.T) {
	r := newRig(t, quota.Limits{quota.Functions: 2})
	r.dev.Params = []gpu.Param{{Offset: 0, Size: 8}}
	_, err := r.Function(1, 1, "f")
	require.ErrorIs(t, err, syscall.ENOENT)
	r.load(1)
	r.load(2)
	attr, err := r.Function(1, 1, "f")
	require.NoError(t, err)
	require.Equal(t, drm.FunctionAttributes{ParamBytes: 8, SharedBytes: 1, LocalBytes: 2, ConstBytes: 3, Regs: 4, MaxThreads: 5,
		Params: []drm.FunctionParam{{Size: 8}}}, attr)
	_, err = r.Function(2, 1, "f")
	require.ErrorIs(t, err, syscall.EEXIST, "ids are of the file")
	_, err = r.Function(2, 0, "f")
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = r.Function(2, 2, "none")
	require.ErrorIs(t, err, gpu.ErrNotFound)
	_, err = r.Function(2, 2, "f")
	require.NoError(t, err)
	_, err = r.Function(2, 3, "f")
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, r.Unload(1))
	require.ErrorIs(t, r.Unload(1), syscall.ENOENT)
	require.EqualValues(t, 1, r.guest.Used(quota.Functions))
	r.dev.Params = make([]gpu.Param, drm.MaxParams+1)
	_, err = r.Function(2, 1, "f")
	require.ErrorIs(t, err, syscall.E2BIG)

	addr, size, err := r.Global(2, "v")
	require.NoError(t, err)
	require.Equal(t, []uint64{0x1000, 4}, []uint64{addr, size})
	_, _, err = r.Global(2, "w")
	require.ErrorIs(t, err, gpu.ErrNotFound)
	_, _, err = r.Global(1, "v")
	require.ErrorIs(t, err, syscall.ENOENT)

	mended := r.failing("Module.Close")
	require.ErrorIs(t, r.Unload(2), errDevice)
	mended()
	r.nothingBut()
	r.closed()
}

// The text of an error is cut where a completion has no room for it.
func TestLogIsBounded(t *testing.T) {
	long := &LoadError{err: errors.New(strings.Repeat("x", 2*drm.MaxText))}
	require.LessOrEqual(t, len(Log(long)), drm.MaxText)
}

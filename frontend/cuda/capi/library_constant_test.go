package capi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/internal/cudalibs"
	"pvdrm/internal/progmem"
)

// checkConstants asks for what needs no context.
func (p *libraryProgram) checkConstants() {
	p.t.Helper()
	to := p.room(8)
	for part := range uint64(3) {
		require.Zero(p.t, p.ask("cublasGetProperty", part, to))
		require.Equal(p.t, 13+part, p.word(to)&0xffffffff)
	}
	require.EqualValues(p.t, 7, p.ask("cublasGetProperty", 3, to), "the library's own error")
	require.Zero(p.t, p.ask("cublasGetVersion_v2", 0, to), "without a handle")
	require.EqualValues(p.t, 130000, p.word(to)&0xffffffff)
	require.EqualValues(p.t, 130004, p.ask("cublasLtGetVersion"))
	require.EqualValues(p.t, 91400, p.ask("cudnnGetVersion"))
	require.Zero(p.t, p.ask("cufftGetVersion", to))
	require.EqualValues(p.t, 12000, p.word(to)&0xffffffff)
	require.Equal(p.t, "some status", p.text("cublasGetStatusString", 1))

	require.EqualValues(p.t, 7, p.ask("cublasGetProperty", 0, 16), "a wild pointer")
	require.EqualValues(p.t, 7, p.ask("cublasGetProperty", 0, 0), "none at all")
	require.EqualValues(p.t, 10, p.ask("cusparseGetProperty", 0, to), "the host lacks it")
	require.Contains(p.t, p.text("cusparseGetErrorString", 1), "no text")
	require.Zero(p.t, p.ask("cudnnGetCudartVersion"), "the host's library lacks it")
}

func (p *libraryProgram) text(name string, args ...uint64) string {
	p.t.Helper()
	text, err := progmem.ReadString(p.mem, p.ask(name, args...), maxText)
	require.NoError(p.t, err)
	return string(text)
}

func (p *libraryProgram) contexts() (n int) { return len(p.lib.allContexts()) }

// Programs ask for versions before anything else, and are left without a context.
func TestConstantsOfLibrariesBeforeInit(t *testing.T) {
	p := newFreshLibraryProgram(t)
	p.checkConstants()
	require.Equal(t, notInitialized, p.call("cuCtxGetCurrent", p.out), "cuInit is for the program")
	require.Zero(t, p.gpu.Open, "nothing stays open")
	opened := len(p.gpu.Opened)
	p.checkConstants()
	require.LessOrEqual(t, len(p.gpu.Opened), opened+1, "what is known is not asked for again")
	_, r := p.tryLibrary("cublasCreate_v2", p.room(8))
	require.Equal(t, notInitialized, r, "the stub calls cuInit, and then again")
	returned, _ := p.tryLibrary("cublasGetMatrix", 0, 0, 0, 0, 0, 0, 0)
	require.EqualValues(t, 15, returned, "PVDRM does not support it")
}

func TestConstantsOfLibrariesWithoutContext(t *testing.T) {
	p := newFreshLibraryProgram(t)
	p.ok("cuInit", 0)
	p.checkConstants()
	require.Zero(t, p.contexts())
	p.ok("cuCtxGetCurrent", p.out)
	require.Zero(t, p.word(p.out))
}

// A context of the program that is not the thread's is as good as one that is made for it.
func TestConstantsOfLibrariesOnAnotherThread(t *testing.T) {
	p := newLibraryProgram(t)
	opened := len(p.gpu.Opened)
	q := &libraryProgram{program: p.on(2)}
	q.checkConstants()
	require.Len(t, p.gpu.Opened, opened)
}

func TestConstantsOfLibrariesAfterTheContext(t *testing.T) {
	p := newLibraryProgram(t)
	p.checkConstants()
	p.ok("cuCtxGetCurrent", p.out)
	x := p.word(p.out)
	p.on(2).ok("cuCtxDestroy_v2", x)
	p.checkConstants()
	require.Zero(t, p.contexts())
	require.Empty(t, p.gpu.Failed)
}

// Without a device, or with one that has no libraries, each function returns what it can, and no text is a wild
// pointer.
func TestConstantsOfLibrariesWithoutLibraries(t *testing.T) {
	plain, none := newIdleProgram(t), newIdleProgram(t)
	none.lib.cfg.Open = []cuda.Opener{func() (drm.File, error) { return nil, cuda.ErrNoDevice }}
	for name, p := range map[string]*program{"no libraries": plain, "no device": none} {
		l := &libraryProgram{program: p}
		for _, f := range cudalibs.All().Functions {
			if !f.Constant {
				continue
			}
			args := make([]uint64, len(f.Params))
			for i, param := range f.Params {
				if param.Class == cudalibs.Out {
					args[i] = l.room(8)
				}
			}
			switch f.Mode {
			case cudalibs.Text:
				require.Contains(t, l.text(f.Name, args...), "no text", "%s: %s", name, f.Name)
			case cudalibs.Number:
				require.Zero(t, l.ask(f.Name, args...), "%s: %s", name, f.Name)
			default:
				require.EqualValues(t, f.Library.Codes.Unsupported, l.ask(f.Name, args...), "%s: %s", name, f.Name)
			}
		}
	}
}

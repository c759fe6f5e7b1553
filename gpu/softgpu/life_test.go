package softgpu

import (
	gocontext "context"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// The end of a context cancels the modules that are being compiled in it.
func TestEndCancelsLoads(t *testing.T) {
	var l life
	l.init()
	loading, cancel := gocontext.WithCancelCause(gocontext.Background())
	forget := l.onEnd(cancel)
	loaded, cancelLoaded := gocontext.WithCancelCause(gocontext.Background())
	defer cancelLoaded(nil)
	l.onEnd(cancelLoaded)()
	l.end(gpu.ErrClosed)
	require.Equal(t, gpu.ErrClosed, gocontext.Cause(loading))
	require.NoError(t, loaded.Err(), "it was over before")
	forget()
	late, cancel := gocontext.WithCancelCause(gocontext.Background())
	l.onEnd(cancel)()
	require.Equal(t, gpu.ErrClosed, gocontext.Cause(late))
}

package tests

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gpu/softgpu"
)

// A file may be closed while other goroutines wait on it or work with it: they
// get an error, and none of them touches memory that is gone.
func TestCloseWhileOthersUseTheFile(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	for range 10 {
		p := newProgram(t, h.open(t))
		forever, _, err := p.ModuleFunction(p.module, "forever")
		require.NoError(t, err)
		spare, err := p.ChannelAlloc()
		require.NoError(t, err)
		never, err := p.SyncobjCreate(false)
		require.NoError(t, err)
		last, err := p.Exec(p.channel, drm.LaunchCmd{Function: forever, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}.Append(nil), nil)
		require.NoError(t, err)

		uses := map[string]func() error{
			"wait for a batch": func() error { return p.Wait(drm.Point{Channel: p.channel, Seqno: last}, -1) },
			"wait for all":     func() error { return p.CPUPrep(p.handle, -1) },
			"wait for a fence": func() error { _, err := p.SyncobjWait([]uint32{never}, true, true, -1); return err },
			"free a channel":   func() error { return p.ChannelFree(p.channel) },
			"ask":              func() error { _, err := p.GetParam(drm.ParamVRAMUsed); return err },
			"submit":           func() error { _, err := p.Exec(spare, drm.TimestampCmd{Addr: p.addr}.Append(nil), nil); return err },
			"make objects":     func() error { return p.makeAndClose(drm.GemNoShare) },
			"make own grants":  func() error { return p.makeAndClose(0) },
			"load modules": func() error {
				m, err := p.ModuleLoad("again.ptx", []byte(addOne))
				if err != nil {
					return err
				}
				return p.ModuleUnload(m)
			},
		}
		ends := make(chan error, len(uses))
		var inside sync.WaitGroup
		for what, use := range uses {
			inside.Add(1)
			go func() {
				inside.Done()
				err := use()
				for err == nil || what == "submit" && errors.Is(err, syscall.EBUSY) {
					err = use()
				}
				ends <- err
			}()
		}
		inside.Wait()
		time.Sleep(2 * time.Millisecond) // so that some are in the midst of things: nothing depends on how many
		require.NoError(t, p.Close())
		for range uses {
			select {
			case err := <-ends:
				if !errors.Is(err, syscall.EBADF) && !errors.Is(err, syscall.ENODEV) && !errors.Is(err, syscall.ENOENT) {
					require.NoError(t, err)
				}
			case <-time.After(patience):
				require.Fail(t, "a call waits on a file that is closed")
			}
		}
		require.ErrorIs(t, p.Close(), syscall.EBADF)
		_, err = p.GemNew(4096, drm.DomainSystem, 0)
		require.ErrorIs(t, err, syscall.EBADF)
	}
}

// makeAndClose makes an object in granted pages and closes it.
func (p *program) makeAndClose(flags drm.GemFlags) error {
	handle, err := p.GemNew(64<<10, drm.DomainSystem, flags)
	if err != nil {
		return err
	}
	return p.GemClose(handle)
}

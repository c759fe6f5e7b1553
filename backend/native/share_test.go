package native_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

func (p *program) driver() drm.Driver {
	d, ok := p.File.(drm.Driver)
	require.True(p.t, ok)
	return d
}

// Sync objects stand for points, of one channel and across channels.
func TestSyncobjs(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		d := p.driver()
		a, err := d.SyncobjCreate(false)
		require.NoError(t, err)
		b, err := d.SyncobjCreate(true)
		require.NoError(t, err)
		wait := func(all, forSubmit bool, timeout time.Duration, handles ...uint32) (int, error) {
			return d.SyncobjWait(handles, all, forSubmit, timeout)
		}
		first, err := wait(false, true, time.Minute, a, b)
		require.NoError(t, err)
		require.Equal(t, 1, first)
		_, err = wait(true, true, time.Millisecond, a, b)
		require.ErrorIs(t, err, syscall.ETIME)
		_, err = wait(false, false, time.Minute, a, b)
		require.ErrorIs(t, err, syscall.EINVAL, "no fence")
		_, err = wait(false, false, time.Minute)
		require.ErrorIs(t, err, syscall.EINVAL, "of nothing")
		_, err = wait(false, false, time.Minute, 99)
		require.ErrorIs(t, err, syscall.ENOENT)

		_, err = d.ExecSync(p.channel, p.fill(1), []uint32{a}, nil)
		require.ErrorIs(t, err, syscall.EINVAL, "no fence")
		_, err = d.ExecSync(p.channel, p.fill(1), nil, []uint32{a, 99})
		require.ErrorIs(t, err, syscall.ENOENT)
		_, err = wait(true, true, 0, a)
		require.ErrorIs(t, err, syscall.ETIME, "a batch that was refused signals nothing")

		other := p.other()
		_, err = d.ExecSync(p.channel, p.fill(1), []uint32{b}, []uint32{a})
		require.NoError(t, err)
		seqno, err := d.ExecSync(other, p.fill(2), []uint32{a, b}, []uint32{b})
		require.NoError(t, err)
		first, err = wait(true, false, time.Minute, b, a)
		require.NoError(t, err)
		require.Zero(t, first)
		require.NoError(t, d.Wait(drm.Point{Channel: other, Seqno: seqno}, 0))
		require.Equal(t, byte(2), p.mem[0])

		require.ErrorIs(t, d.SyncobjReset([]uint32{a, 99}), syscall.ENOENT)
		_, err = wait(true, false, 0, a)
		require.NoError(t, err, "nothing was reset")
		require.NoError(t, d.SyncobjReset([]uint32{a}))
		_, err = wait(true, true, 0, a)
		require.ErrorIs(t, err, syscall.ETIME)
		signaled := make(chan error, 1)
		go func() { signaled <- d.SyncobjSignal([]uint32{a}) }()
		_, err = wait(true, true, -1, a)
		require.NoError(t, err)
		require.NoError(t, <-signaled)
		require.NoError(t, d.SyncobjDestroy(a))
		require.ErrorIs(t, d.SyncobjDestroy(a), syscall.ENOENT)
		require.ErrorIs(t, d.SyncobjSignal([]uint32{a}), syscall.ENOENT)
	})
}

// The end of a channel signals what stands for its points; CPU_PREP waits for all work.
func TestSyncobjsOfAFreedChannel(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		d := p.driver()
		s, err := d.SyncobjCreate(false)
		require.NoError(t, err)
		busy := p.other()
		_, err = d.ExecSync(busy, p.fill(1), nil, []uint32{s})
		require.NoError(t, err)
		require.NoError(t, d.CPUPrep(p.handle, -1))
		_, err = d.SyncobjWait([]uint32{s}, true, false, 0)
		require.NoError(t, err)
		require.NoError(t, p.ChannelFree(busy))
		_, err = d.SyncobjWait([]uint32{s}, true, false, -1)
		require.NoError(t, err)
		_, err = d.ExecSync(p.channel, nil, []uint32{s}, nil)
		require.NoError(t, err)
		require.ErrorIs(t, d.CPUPrep(99, -1), syscall.ENOENT)
		forever := p.exec(p.channel, launch(p.forever))
		require.ErrorIs(t, d.CPUPrep(p.handle, time.Millisecond), syscall.ETIME)
		require.ErrorIs(t, d.Wait(forever, 0), syscall.ETIME)
	})
}

// Close ends waits for what will never be submitted.
func TestCloseEndsWaitsForSyncobjs(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		d := p.driver()
		s, err := d.SyncobjCreate(false)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := d.SyncobjWait([]uint32{s}, true, true, -1)
			done <- err
		}()
		require.NoError(t, p.Close())
		require.ErrorIs(t, <-done, syscall.EBADF)
	})
}

// An exported object is the same memory wherever it is imported.
func TestSharedObjects(t *testing.T) {
	dev := softGPU(t)
	guest := serveLocal(t, dev)
	for name, open := range map[string]func() (drm.File, error){
		"native": func() (drm.File, error) { return openNative(t, dev), nil },
		"guest":  guest,
	} {
		t.Run(name, func(t *testing.T) {
			file, err := open()
			require.NoError(t, err)
			p := newProgram(t, file)
			file, err = open()
			require.NoError(t, err)
			d, ok := file.(drm.Driver)
			require.True(t, ok)
			h, err := p.GemNew(8192, drm.DomainSystem, 0)
			require.NoError(t, err)
			fd, err := p.driver().PrimeExport(h)
			require.NoError(t, err)
			got, err := d.PrimeImport(fd)
			require.NoError(t, err)
			require.NoError(t, unix.Close(fd))
			info, err := d.GemInfo(got)
			require.NoError(t, err)
			require.Equal(t, drm.GemInfo{Handle: got, Domain: drm.DomainSystem, Size: 8192, MapOffset: drm.MapOffset(got)}, info)
			mine, err := p.GemMap(h)
			require.NoError(t, err)
			theirs, err := d.GemMap(got)
			require.NoError(t, err)
			mine[8191] = 7
			require.Equal(t, byte(7), theirs[8191])
			require.NoError(t, p.GemClose(h))
			theirs[0] = 8

			private, err := p.GemNew(4096, drm.DomainSystem, drm.GemNoShare)
			require.NoError(t, err)
			vram, err := p.GemNew(4096, drm.DomainVRAM, 0)
			require.NoError(t, err)
			for _, h := range []uint32{private, vram} {
				_, err = p.driver().PrimeExport(h)
				require.ErrorIs(t, err, syscall.EOPNOTSUPP)
			}
			_, err = p.driver().PrimeExport(99)
			require.ErrorIs(t, err, syscall.ENOENT)
			_, err = d.PrimeImport(-1)
			require.ErrorIs(t, err, syscall.EBADF)
			null, err := os.Open(os.DevNull)
			require.NoError(t, err)
			_, err = d.PrimeImport(int(null.Fd()))
			require.ErrorIs(t, err, syscall.EINVAL)
			require.NoError(t, null.Close())
			require.NoError(t, file.Close())
		})
	}
}

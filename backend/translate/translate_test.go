package translate

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

func TestErrno(t *testing.T) {
	for want, err := range map[syscall.Errno]error{
		0:                 nil,
		syscall.ENOTTY:    syscall.ENOTTY,
		syscall.EIO:       &gpu.LostError{Cause: gpu.LostTrap},
		syscall.ENOEXEC:   &gpu.BuildError{},
		syscall.EINVAL:    gpu.ErrInvalid,
		syscall.EEXIST:    gpu.ErrExists,
		syscall.ENOENT:    gpu.ErrNotFound,
		syscall.ENOMEM:    gpu.ErrNoMemory,
		syscall.EFBIG:     gpu.ErrTooLarge,
		syscall.ERANGE:    gpu.ErrGridTooLarge,
		syscall.EDOM:      gpu.ErrCluster,
		syscall.EBUSY:     gpu.ErrBusy,
		syscall.ECANCELED: gpu.ErrCanceled,
		syscall.ENODEV:    gpu.ErrClosed,
		syscall.EREMOTEIO: errors.New("anything else"),
	} {
		require.Equal(t, want, Errno(err))
		if err != nil {
			require.Equal(t, want, Errno(fmt.Errorf("wrapped: %w", err)))
		}
	}
	require.Equal(t, syscall.EINVAL, Errno(hypercall.ErrMessage))
}

func TestParams(t *testing.T) {
	p := gpu.Properties{ComputeMajor: 7, L2Bytes: -1, MaxBlocksSM: 7, Number: 3, Textures: true, Cooperative: true, Words: true, Shares: true, MaxCluster: 16, Libraries: 5, MaxChannels: 1 << 20,
		VRAM: gpu.Window{Base: 1, Size: 2, Page: 3}, System: gpu.Window{Base: 4, Size: 5, Page: 6}}
	v := Params(p)
	require.Len(t, v, drm.NumParams)
	at := func(p drm.Param) uint64 { return v[p-1] }
	require.EqualValues(t, 7, at(drm.ParamComputeMajor))
	require.EqualValues(t, 0, at(drm.ParamL2Bytes))
	require.EqualValues(t, drm.MaxChannels, at(drm.ParamMaxChannels), "channel 0 is not used")
	require.EqualValues(t, 1, at(drm.ParamVRAMBase))
	require.EqualValues(t, 3, at(drm.ParamVRAMPage))
	require.EqualValues(t, 6, at(drm.ParamSystemPage))
	require.EqualValues(t, 7, at(drm.ParamMaxBlocksSM))
	require.EqualValues(t, 3, at(drm.ParamDevice))
	require.EqualValues(t, 1, at(drm.ParamTextures))
	require.EqualValues(t, 1, at(drm.ParamCooperative))
	require.EqualValues(t, 1, at(drm.ParamWords))
	require.EqualValues(t, drm.SharesAll, at(drm.ParamShares))
	require.EqualValues(t, drm.SharesMapped, shares(&gpu.Properties{SharesMapped: true}))
	require.Zero(t, shares(&gpu.Properties{}))
	require.EqualValues(t, 16, at(drm.ParamMaxCluster))
	require.EqualValues(t, 5, at(drm.ParamLibraries))
}

// kernel is a function that is told apart by its name only.
type kernel string

func (k kernel) Attributes() gpu.FunctionAttributes { return gpu.FunctionAttributes{Name: string(k)} }

func TestCommands(t *testing.T) {
	find := func(id uint32) (gpu.Function, error) {
		if id != 5 {
			return nil, syscall.ENOENT
		}
		return kernel("k"), nil
	}
	stream := drm.CopyCmd{Dst: 1, Src: 2, Width: 3, Height: 4, DstPitch: 5, SrcPitch: 6}.Append(nil)
	stream = drm.FillCmd{Dst: 1, Size: 4, Pattern: 7, Width: 8, Height: 9, Pitch: 10}.Append(stream)
	stream = drm.LaunchCmd{Function: 5, Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, SharedBytes: 7, Params: []byte{8, 9}}.Append(stream)
	stream = drm.TimestampCmd{Addr: 11}.Append(stream)
	stream = drm.CallCmd{Function: 12, Args: []byte{13}, Results: 16, ResultBytes: 24}.Append(stream)
	cmds, _, err := Commands(stream, find)
	require.NoError(t, err)
	clear(stream)
	require.Equal(t, []gpu.Command{
		&gpu.Copy{Dst: 1, Src: 2, Width: 3, Height: 4, DstPitch: 5, SrcPitch: 6},
		&gpu.Fill{Dst: 1, Size: 4, Pattern: 7, Width: 8, Height: 9, Pitch: 10},
		&gpu.Launch{Func: kernel("k"), Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, SharedBytes: 7, Params: []byte{8, 9}},
		&gpu.Timestamp{VA: 11},
		&gpu.Call{Function: 12, Args: []byte{13}, Results: 16, Bytes: 24},
	}, cmds)

	stream = drm.LaunchCmd{Function: 6}.Append(drm.TimestampCmd{}.Append(nil))
	_, index, err := Commands(stream, find)
	require.ErrorIs(t, err, syscall.ENOENT)
	require.Equal(t, 1, index)
}

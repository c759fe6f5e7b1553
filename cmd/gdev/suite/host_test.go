package suite

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

// fakeKernels do nothing but count, or refuse.
type fakeKernels struct {
	began, ended int
	launched     []string
	refuse       error
}

func (k *fakeKernels) Begin() error { k.began++; return k.refuse }
func (k *fakeKernels) End()         { k.ended++ }
func (k *fakeKernels) Launch(kernel string, _, _ [2]uint32, _ []byte) error {
	k.launched = append(k.launched, kernel)
	return k.refuse
}

// Programs that copy work without kernels; one whose kernels do nothing has a
// wrong result, not an error.
func TestRunHost(t *testing.T) {
	for _, name := range []string{"cpy", "pincpy"} {
		k := &fakeKernels{}
		res, err := RunHost(name, k, Options{})
		require.NoError(t, err)
		require.True(t, res.Verified, res.Error)
		require.Equal(t, 1, k.began)
		require.Equal(t, 1, k.ended)
	}
	k := &fakeKernels{}
	res, err := RunHost("bfs", k, Options{})
	require.NoError(t, err)
	require.False(t, res.Verified)
	require.Equal(t, []string{"bfs_step"}, k.launched, "fill and peek work: no vertex was reached")
	_, err = RunHost("bsf", k, Options{})
	require.ErrorContains(t, err, `no program "bsf"`)
	res, err = RunHost("madd", &fakeKernels{refuse: errors.New("no threads")}, Options{})
	require.NoError(t, err)
	require.ErrorContains(t, errors.New(res.Error), "no threads")
}

func TestHostDeviceBounds(t *testing.T) {
	d := &hostDevice{kernels: &fakeKernels{}, memory: map[cuda.DevicePtr]mapped{}}
	p, err := d.alloc(100)
	require.NoError(t, err)
	require.NoError(t, d.write(p+90, make([]byte, 10)))
	for at, n := range map[cuda.DevicePtr]int{p + 91: 10, p + 101: 0, p - 1: 1} {
		require.Error(t, d.write(at, make([]byte, n)))
		require.Error(t, d.read(make([]byte, n), at))
	}
	require.Error(t, d.fill(p, 1, 26))
	require.NoError(t, d.close())
}

func TestParameters(t *testing.T) {
	b, err := parameters([]any{uint32(1), cuda.DevicePtr(2), int32(-1), float32(1)})
	require.NoError(t, err)
	require.Len(t, b, 24)
	require.EqualValues(t, 1, binary.LittleEndian.Uint32(b))
	require.EqualValues(t, 2, binary.LittleEndian.Uint64(b[8:]), "aligned")
	require.EqualValues(t, 0xffffffff, binary.LittleEndian.Uint32(b[16:]))
	require.EqualValues(t, 0x3f800000, binary.LittleEndian.Uint32(b[20:]))
	_, err = parameters([]any{1.0})
	require.ErrorContains(t, err, "argument 0 is a float64")
}

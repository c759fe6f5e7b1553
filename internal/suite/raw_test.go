package suite

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

// fakeRaw is a device whose memory is one slice that starts at address fakeBase, and whose
// kernels do nothing.
type fakeRaw struct {
	mem      []byte
	launched []string
	pinned   int // copies of pinned memory
	refuse   error
	closed   int
}

const fakeBase = 1 << 40

func (f *fakeRaw) Load(string, []byte) error { return f.refuse }
func (f *fakeRaw) Alloc(n uint64) (uint64, error) {
	at := len(f.mem)
	f.mem = append(f.mem, make([]byte, n)...)
	return fakeBase + uint64(at), nil
}
func (f *fakeRaw) AllocHost(n uint64) ([]byte, error) { return make([]byte, n), nil }
func (f *fakeRaw) count(pinned bool) {
	if pinned {
		f.pinned++
	}
}
func (f *fakeRaw) Write(dst uint64, src []byte, pinned bool) error {
	f.count(pinned)
	copy(f.mem[dst-fakeBase:], src)
	return nil
}
func (f *fakeRaw) Read(dst []byte, src uint64, pinned bool) error {
	f.count(pinned)
	copy(dst, f.mem[src-fakeBase:])
	return nil
}
func (f *fakeRaw) Fill(dst uint64, word uint32, n uint64) error {
	for i := range n {
		binary.LittleEndian.PutUint32(f.mem[dst-fakeBase+4*i:], word)
	}
	return nil
}
func (f *fakeRaw) Launch(kernel string, _, _ [2]uint32, _ []byte) error {
	f.launched = append(f.launched, kernel)
	return nil
}
func (f *fakeRaw) Sync() error  { return nil }
func (f *fakeRaw) Close() error { f.closed++; return nil }

// Programs that copy work without kernels; one whose kernels do nothing has a
// wrong result, not an error.
func TestRunRaw(t *testing.T) {
	runOn := func(f *fakeRaw, name string) Result {
		res, err := RunRaw(name, func() (RawDevice, error) { return f, nil }, Options{})
		require.NoError(t, err)
		require.Equal(t, 1, f.closed)
		return res
	}
	for name, pinned := range map[string]int{"cpy": 0, "pincpy": 2} {
		if testing.Short() && name == "cpy" {
			continue
		}
		f := &fakeRaw{}
		res := runOn(f, name)
		require.True(t, res.Verified, res.Error)
		require.Equal(t, pinned, f.pinned)
	}
	f := &fakeRaw{}
	require.False(t, runOn(f, "bfs").Verified)
	require.Equal(t, []string{"bfs_step"}, f.launched, "fill and peek work: no vertex was reached")
	res := runOn(&fakeRaw{refuse: errors.New("no such target")}, "madd")
	require.ErrorContains(t, errors.New(res.Error), "no such target")

	_, err := RunRaw("bsf", nil, Options{})
	require.ErrorContains(t, err, `unknown program "bsf"`)
	_, err = RunRaw("bfs", nil, Options{Scale: 3})
	require.ErrorContains(t, err, "power of two")
	res, err = RunRaw("nop", func() (RawDevice, error) { return nil, errors.New("no GPU") }, Options{})
	require.NoError(t, err)
	require.Contains(t, res.Error, "no GPU")
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

// A trial does all that a run does but check the result, and says so.
func TestTrial(t *testing.T) {
	programs := All()
	if testing.Short() { // one goroutine runs them
		programs = []Bench{nopBench, maddBench, bfsBench}
	}
	for _, b := range programs {
		f := &fakeRaw{}
		res, err := RunRaw(b.Name, func() (RawDevice, error) { return f, nil }, Options{Trial: true})
		require.NoError(t, err)
		require.False(t, res.Verified, b.Name)
		require.Empty(t, res.Error, b.Name)
		require.Positive(t, f.closed, b.Name)
		require.Positive(t, res.Seconds.Close, b.Name)
	}
	res, err := RunRaw("madd", func() (RawDevice, error) { return &fakeRaw{refuse: errors.New("no PTX")}, nil }, Options{Trial: true})
	require.NoError(t, err)
	require.Contains(t, res.Error, "no PTX")
}

// A result that is known to be right is not checked again, and any other is.
func TestKnown(t *testing.T) {
	names := []string{"madd", "lud", "srad2"}
	if testing.Short() { // one goroutine runs them
		names = names[:1]
	}
	for _, name := range names {
		run := func(known string) Result {
			res, err := RunRaw(name, func() (RawDevice, error) { return &fakeRaw{}, nil }, Options{Scale: 2, Known: known})
			require.NoError(t, err)
			return res
		}
		res := run("")
		require.False(t, res.Verified, "%s: the device computes nothing", name)
		require.Len(t, res.Digest, 64, name)
		require.Equal(t, res, withTimes(run("00"), res), name)
		known := run(res.Digest)
		require.True(t, known.Verified, name)
		require.Empty(t, known.Error, name)
	}
	res, err := RunRaw("madd", func() (RawDevice, error) { return &fakeRaw{}, nil }, Options{})
	require.NoError(t, err)
	require.Empty(t, res.Digest, "small results are checked each time")
}

// withTimes is r with the times of another result.
func withTimes(r, other Result) Result {
	r.Seconds, r.Processor = other.Seconds, other.Processor
	return r
}

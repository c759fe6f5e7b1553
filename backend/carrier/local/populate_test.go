package local

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// present is how many bytes of the memory behind a descriptor there are.
func present(t *testing.T, fd int) int64 {
	t.Helper()
	const block = 512
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &st))
	return st.Blocks * block
}

// Large memory is made present although nobody touches it.
func TestPopulate(t *testing.T) {
	s := NewServer(Config{})
	grant := func(size int64) (*memory, int) {
		fd := memfd(t, size, wantSeals)
		m, err := s.grant(fd)
		require.NoError(t, err)
		return m, fd
	}
	const large = populateFrom + populateChunk/2
	small, smallFD := grant(populateFrom / 2)
	first, firstFD := grant(large)
	second, secondFD := grant(large)
	s.populator.work.Wait()
	require.EqualValues(t, large, present(t, firstFD))
	require.EqualValues(t, large, present(t, secondFD))
	require.Zero(t, present(t, smallFD))
	first.drop()
	second.drop()

	// What its clients have given back is not worth the work.
	small.acquire()
	small.drop()
	populate(small)
	require.Zero(t, present(t, smallFD))
	small.release()
	require.Zero(t, s.Stats().GrantedBytes)
}

package nvidia_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
)

// eventually waits until there are so many workers of contexts.
func eventually(t *testing.T, workers int) (pids []int) {
	t.Helper()
	keeper := keeperOf(t)
	require.Eventually(t, func() bool {
		pids = children(t, keeper, "cuda-worker")
		return len(pids) == workers
	}, 5*time.Minute, time.Millisecond)
	return pids
}

// Workers wait for contexts, and are replaced when they are taken or killed.
func TestPoolOfWorkers(t *testing.T) {
	dev, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(fakeWorker), Spares: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.Close()) }()
	eventually(t, 2)
	first, err := dev.NewContext("first")
	require.NoError(t, err)
	pids := eventually(t, 3)
	require.NoError(t, first.Close())
	waiting := eventually(t, 2)
	require.Subset(t, pids, waiting)
	for _, pid := range waiting { // none of them may be handed out
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	}
	var all [4]gpu.Context
	var together sync.WaitGroup
	for i := range all {
		together.Go(func() {
			var err error
			if all[i], err = dev.NewContext("another"); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	for i := range all {
		if all[i] != nil {
			_, err := all[i].NewChannel()
			require.NoError(t, err)
		}
	}
	eventually(t, len(all)+2)
}

// A device that is closed while workers start leaves none behind.
func TestPoolClosesAtOnce(t *testing.T) {
	dev, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(fakeWorker), Spares: 3})
	require.NoError(t, err)
	keeper := keeperOf(t)
	require.NoError(t, dev.Close())
	require.ErrorIs(t, unix.Kill(keeper, 0), unix.ESRCH)
	_, err = dev.NewContext("late")
	require.ErrorIs(t, err, gpu.ErrClosed)
	_, err = nvidia.New(nvidia.Config{Keeper: keeperCommand(fakeWorker), Spares: 100})
	require.ErrorIs(t, err, gpu.ErrInvalid)
}

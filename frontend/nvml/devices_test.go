package nvml

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/cudatest"
	"pvdrm/hypercall"
)

// Each device has a handle, an index, an identity and counts of its own.
func TestSeveralDevices(t *testing.T) {
	second := cudatest.NewGPU(t)
	second.Params[drm.ParamDevice] = 1
	p := newProgram(t)
	p.lib.cfg.Open = append(p.lib.cfg.Open, func() (File, error) {
		f, err := second.Opener()
		other := *p
		other.usage = hypercall.Usage{VRAM: 32 << 20, VRAMFree: 32 << 20}
		return file{f, &other}, err
	})
	p.ok("nvmlInit_v2")
	defer p.ok("nvmlShutdown")
	p.ok("nvmlDeviceGetCount_v2", p.room)
	require.Equal(t, []uint32{2}, p.words32(1))
	p.gives(ErrInvalidArgument, "nvmlDeviceGetHandleByIndex_v2", 2, p.room)
	var handles []uint64
	ids := map[string]bool{}
	for i, bus := range []string{"0000:00:00.0", "0000:01:00.0"} {
		p.ok("nvmlDeviceGetHandleByIndex_v2", uint64(i), p.room)
		dev := le64(p.bytes(p.room, 8))
		handles = append(handles, dev)
		p.ok("nvmlDeviceGetIndex", dev, p.room)
		require.Equal(t, []uint32{uint32(i)}, p.words32(1))
		p.ok("nvmlDeviceGetPciInfo_v3", dev, p.room)
		require.Equal(t, bus, p.text(p.room))
		require.Equal(t, uint32(i), le32(p.bytes(p.room+20, 4)))
		p.ok("nvmlDeviceGetHandleByPciBusId_v2", p.room, p.room+512)
		require.Equal(t, dev, le64(p.bytes(p.room+512, 8)))
		p.ok("nvmlDeviceGetUUID", dev, p.room, 96)
		ids[p.text(p.room)] = true
		p.ok("nvmlDeviceGetHandleByUUID", p.room, p.room+512)
		require.Equal(t, dev, le64(p.bytes(p.room+512, 8)))
		p.ok("nvmlDeviceGetMemoryInfo", dev, p.room)
		require.EqualValues(t, []uint64{64 << 20, 32 << 20}[i], le64(p.bytes(p.room, 8)))
		p.ok("nvmlDeviceGetUtilizationRates", dev, p.room)
	}
	require.Len(t, ids, 2)
	p.gives(ErrInvalidArgument, "nvmlDeviceGetIndex", handles[1]+handleStep, p.room)

	p.ok("nvmlDeviceOnSameBoard", handles[0], handles[1], p.room)
	require.Equal(t, []uint32{0}, p.words32(1))
	p.ok("nvmlDeviceOnSameBoard", handles[1], handles[1], p.room)
	require.Equal(t, []uint32{1}, p.words32(1))
	p.ok("nvmlDeviceGetTopologyCommonAncestor", handles[0], handles[1], p.room)
	require.Equal(t, []uint32{hostBridge}, p.words32(1))
	p.gives(ErrNotSupported, "nvmlDeviceGetTopologyCommonAncestor", handles[1], handles[1], p.room)
	for _, room := range []uint32{0, 1, 9} {
		p.put(0, room)
		p.ok("nvmlDeviceGetTopologyNearestGpus", handles[1], hostBridge, p.room, p.room+8)
		require.Equal(t, []uint32{1}, p.words32(1))
	}
	require.Equal(t, handles[0], le64(p.bytes(p.room+8, 8)))
	p.ok("nvmlDeviceGetTopologyNearestGpus", handles[1], 0, p.room, p.room+8)
	require.Equal(t, []uint32{0}, p.words32(1))
}

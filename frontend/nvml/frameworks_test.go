package nvml

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What PyTorch's allocator, its torch.cuda and NCCL look up by name is there. What the device does not have is
// NVML_ERROR_NOT_SUPPORTED, and leaves the program's memory as it was.
func TestFunctionsOfFrameworks(t *testing.T) {
	p := started(t)
	const dev = deviceHandle
	bus := p.mem.Keep([]byte("0000:00:00.0\x00"))
	p.put(512, 1) // room for a process
	for _, f := range []struct {
		name string
		args []uint64
		want Result
	}{
		{name: "nvmlInit_v2"},
		{name: "nvmlInitWithFlags", args: []uint64{0}},
		{name: "nvmlSystemGetCudaDriverVersion_v2", args: []uint64{p.room}},
		{name: "nvmlDeviceGetCount_v2", args: []uint64{p.room}},
		{name: "nvmlDeviceGetHandleByIndex_v2", args: []uint64{0, p.room}},
		{name: "nvmlDeviceGetHandleByPciBusId_v2", args: []uint64{bus, p.room}},
		{name: "nvmlDeviceGetIndex", args: []uint64{dev, p.room}},
		{name: "nvmlDeviceGetUUID", args: []uint64{dev, p.room, 96}},
		{name: "nvmlDeviceGetCudaComputeCapability", args: []uint64{dev, p.room, p.room + 8}},
		{name: "nvmlDeviceGetP2PStatus", args: []uint64{dev, dev, 0, p.room}},
		{name: "nvmlDeviceGetComputeRunningProcesses", args: []uint64{dev, p.room + 512, p.room}},
		{name: "nvmlDeviceGetMemoryInfo", args: []uint64{dev, p.room}},
		{name: "nvmlDeviceGetUtilizationRates", args: []uint64{dev, p.room}},
		{name: "nvmlDeviceGetNvLinkState", args: []uint64{dev, 0, p.room}, want: ErrNotSupported},
		{name: "nvmlDeviceGetNvLinkCapability", args: []uint64{dev, 0, 0, p.room}, want: ErrNotSupported},
		{name: "nvmlDeviceGetNvLinkRemoteDeviceType", args: []uint64{dev, 0, p.room}, want: ErrNotSupported},
		{name: "nvmlDeviceGetNvLinkRemotePciInfo_v2", args: []uint64{dev, 0, p.room}, want: ErrNotSupported},
		{name: "nvmlDeviceGetGpuFabricInfoV", args: []uint64{dev, p.room}, want: ErrNotSupported},
		{name: "nvmlSystemGetConfComputeState", args: []uint64{p.room}, want: ErrNotSupported},
		{name: "nvmlSystemGetConfComputeSettings", args: []uint64{p.room}, want: ErrNotSupported},
		{name: "nvmlDeviceGetPlatformInfo", args: []uint64{dev, p.room}, want: ErrNotSupported},
		{name: "nvmlDeviceGetTemperature", args: []uint64{dev, 0, p.room}, want: ErrNotSupported},
		{name: "nvmlDeviceGetTemperatureV", args: []uint64{dev, p.room}, want: ErrNotSupported},
		{name: "nvmlDeviceGetPowerUsage", args: []uint64{dev, p.room}, want: ErrNotSupported},
		{name: "nvmlDeviceGetClockInfo", args: []uint64{dev, 1, p.room}, want: ErrNotSupported},
		{name: "nvmlShutdown"}, {name: "nvmlShutdown"},
	} {
		before := p.bytes(p.room, 256)
		p.gives(f.want, f.name, f.args...)
		if f.want != Success {
			require.Equal(t, before, p.bytes(p.room, 256), f.name)
		}
	}
}

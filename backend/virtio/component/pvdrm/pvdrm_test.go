package pvdrm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/virtio/component/pvdrm"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/hypercall"
)

func TestRecognizesWhatFrontendsSend(t *testing.T) {
	var c pvdrm.Component
	for _, op := range []hypercall.DoorbellOp{hypercall.DoorbellAttach, hypercall.DoorbellKick, hypercall.DoorbellArm} {
		d := hypercall.Doorbell{Op: op, Layout: hypercall.DefaultLayout}
		require.True(t, c.Recognizes(d.Encode()), "%v", op)
	}
	for _, cmd := range []string{"", "virg", string(make([]byte, 32))} {
		require.False(t, c.Recognizes([]byte(cmd)), "%q", cmd)
	}
	require.True(t, c.Owns(&virtgpu.Args{CreateFlag: hypercall.ResourceFlag | 1}))
	require.False(t, c.Owns(&virtgpu.Args{CreateFlag: 1}))
}

func TestCapset(t *testing.T) {
	device := softDevice(t)
	sets := pvdrm.Component{Guest: &virtio.Guest{Device: device}}.Capsets()
	require.Len(t, sets, 1)
	require.EqualValues(t, hypercall.CapsetID, sets[0].ID)
	got, err := hypercall.DecodeCapset(sets[0].Data)
	require.NoError(t, err)
	require.EqualValues(t, hypercall.VersionMajor, got.Major)
	require.EqualValues(t, hypercall.MaxChannels, got.MaxChannels)
	require.EqualValues(t, device.Properties().Number, got.Device)
}

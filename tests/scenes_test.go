package tests

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/virtio/component/pvdrm"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virgl/virgltest"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gpu/softgpu"
	guestimage "pvdrm/guest-image"
	"pvdrm/vmm"
)

// scenesEnv names a directory for recordings, which BenchmarkScene of backend/virtio/virgl replays.
const scenesEnv = "PVDRM_RECORD_SCENES"

// Records what Mesa in a machine asks of its renderer for each scene of glscene.
func TestRecordScenes(t *testing.T) {
	dir := os.Getenv(scenesEnv)
	if dir == "" {
		t.Skip(scenesEnv + " names no directory for recordings")
	}
	for _, scene := range []string{"triangle", "textures", "shader", "cubes"} {
		t.Run(scene, func(t *testing.T) { record(t, scene, filepath.Join(dir, scene+".scene")) })
	}
}

func record(t *testing.T, scene, path string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	img, err := guestimage.Build(ctx, guestimage.Config{Kind: guestimage.Mesa, CacheDir: guestimage.DefaultCacheDir(),
		Programs: []guestimage.Program{{Name: "gdev"}, {Name: "glscene"}}})
	require.NoError(t, err)
	renderer, err := virgl.New(virgl.Config{Keeper: rendererCommand(virgl.KeeperCommand)})
	require.NoError(t, err)
	file, err := os.Create(path)
	require.NoError(t, err)
	r, err := virgltest.Record(renderer, file)
	require.NoError(t, err)
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 1 << 28})
	require.NoError(t, err)
	log := zap.NewNop()
	g, err := virtgpu.New(virtgpu.Config{Log: log,
		Components: []virtgpu.Component{pvdrm.Component{Guest: &virtio.Guest{Device: device, Log: log}}, r}})
	require.NoError(t, err)
	socket := filepath.Join(t.TempDir(), "gpu")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, l) }()
	console := &bytes.Buffer{}
	vm, err := vmm.Start(ctx, vmm.Config{Kernel: img.Kernel, Initrd: img.Initrd, Disk: img.Disk, GPUSocket: socket, Console: console,
		MemoryMiB: 768, CPUs: 1, CacheDir: guestimage.DefaultCacheDir(), BootTimeout: patience})
	require.NoError(t, err)
	require.NoError(t, vm.WaitReady(ctx), console)
	out := (&guest{VM: vm}).sh(t, fmt.Sprintf("glscene -frames 61 -size 640x480 %s", scene))
	t.Log(out)
	require.NoError(t, vm.Shutdown(ctx))
	cancel()
	<-served // it ends with the machine
	require.NoError(t, r.Close())
	require.NoError(t, file.Close())
	require.NoError(t, renderer.Close())
	require.NoError(t, device.Close())
}

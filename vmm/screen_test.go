package vmm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScreenArguments(t *testing.T) {
	cfg := Config{GPUSocket: "/gpu"}
	plain := strings.Join(arguments(cfg, TCG, false), " ")
	require.Contains(t, plain, "-display none")
	require.NotContains(t, plain, "xres")
	require.NotContains(t, plain, "virtio-blk")

	cfg.Display, cfg.Width, cfg.Height, cfg.Disk = "gtk", 800, 600, "/a,b"
	require.NoError(t, cfg.CheckScreen())
	shown := strings.Join(arguments(cfg, TCG, false), " ")
	require.Contains(t, shown, "-display gtk,gl=on ")
	require.Contains(t, shown, "-device vhost-user-gpu-pci,id=gpu0,chardev=gpu,xres=800,yres=600 ")
	require.Contains(t, shown, "readonly=on,file=/a,,b -device virtio-blk-pci,drive=disk ")
}

package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/sandbox"
	"pvdrm/backend/supervisor"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// Values of --gl.
const (
	glAuto = "auto"
	glOn   = "on"
	glOff  = "off"
)

// glFlags say how a backend renders for the OpenGL of a virtual machine.
type glFlags struct {
	mode string
	node string // device that renders; "" for none
}

func (f *glFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.mode, "gl", glAuto, "render for the OpenGL of virtual machines (virgl): on, off, or auto: where virglrenderer is installed")
	c.Flags().StringVar(&f.node, "render-node", "", "what renders: a device of this host, such as /dev/dri/renderD128; egl:N, as EGL lists devices; or cuda:N, a GPU of NVIDIA's (default: Mesa's llvmpipe on the processors)")
}

func (f *glFlags) args() []string { return []string{"--gl", f.mode, "--render-node", f.node} }

// byNumber reports whether what renders is named as EGL or CUDA count devices. It may be NVIDIA's, of which the driver
// has demands (deviceKind).
func (f *glFlags) byNumber() bool { return virgl.Guarded(f.node) }

// files are what of the host's is opened to render, as patterns.
func (f *glFlags) files() []string {
	switch {
	case f.node == "":
		return nil
	case f.byNumber():
		return []string{"/dev/nvidia*", "/dev/dri/*"}
	}
	return []string{f.node}
}

// What a renderer may allocate, in bytes.
const (
	rendererMemory = 4 << 30 // where the guest has no quota of VRAM
	rendererSpare  = 2 << 30 // beside what that quota counts: compiled shaders, contexts
)

// rendererBytes is what a renderer may allocate.
func rendererBytes(limits quota.Limits) uint64 {
	if vram := limits[quota.VRAM]; vram != 0 {
		return vram + rendererSpare
	}
	return rendererMemory
}

// rendererLook is how long a renderer on a GPU of NVIDIA's, and its backend, look for what comes next before they sleep.
const rendererLook = 200 * time.Microsecond

// openGL starts the renderer of a virtual machine. It returns nil where there is
// none to be.
func (d *deviceFlags) openGL(log *zap.Logger, limits quota.Limits, device gpu.Device, guest *virtio.Guest) (*virgl.Renderer, error) {
	f := &d.gl
	switch f.mode {
	case glOff:
		return nil, nil
	case glAuto, glOn:
	default:
		return nil, usageError{fmt.Errorf("--gl: %q is none of %s, %s and %s", f.mode, glAuto, glOn, glOff)}
	}
	keeper := []string{sandbox.Program(), virgl.KeeperCommand, "--confine=" + strconv.FormatBool(d.box == sandboxOn),
		"--render-node", f.node, "--memory", strconv.FormatUint(rendererBytes(limits), 10), "--look", rendererLook.String()}
	c := virgl.Config{Keeper: keeper, Limit: cmp.Or(d.limit, defaultLaunchLimit), Quota: guest.Quotas(), Log: log}
	if strings.HasPrefix(f.node, "cuda:") {
		c.Look = rendererLook
	}
	if g, ok := device.(gatedDevice); ok {
		c.Gate, c.Beside = g.render, d.gl.node == ""
	}
	r, err := virgl.New(c)
	if err != nil && f.mode == glAuto && f.node == "" { // who names a device wants it
		log.Info("no OpenGL for the guest; see pvdrm doctor", zap.Error(err))
		return nil, nil
	}
	return r, err
}

// newVirglProcesses makes the commands behind backend/virtio/virgl: the process that
// renders for a guest, and the one that starts it.
func newVirglProcesses() []*cobra.Command {
	var c virgl.WorkerConfig
	worker := &cobra.Command{
		Use:    virgl.WorkerCommand,
		Short:  "Render for a backend",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return virgl.ServeWorker(c) }, // on the main thread
	}
	keeper := &cobra.Command{
		Use:    virgl.KeeperCommand,
		Short:  "Start and end the process that renders for a backend",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { // on the main thread
			if err := supervisor.RestoreStacks(); err != nil {
				return err
			}
			return virgl.ServeKeeper([]string{sandbox.Program(), virgl.WorkerCommand, "--confine=" + strconv.FormatBool(c.Confine),
				"--render-node", c.RenderNode, "--memory", strconv.FormatUint(c.Memory, 10), "--look", c.Look.String()}, c)
		},
	}
	for _, p := range []*cobra.Command{worker, keeper} {
		p.Flags().BoolVar(&c.Confine, "confine", true, "confine the process that renders")
		p.Flags().StringVar(&c.RenderNode, "render-node", "", "device that renders")
		p.Flags().Uint64Var(&c.Memory, "memory", 0, "most that it may allocate, bytes; 0 for any number")
		p.Flags().DurationVar(&c.Look, "look", 0, "how long it looks for what comes next before it sleeps, if it draws with a GPU of NVIDIA's")
	}
	return []*cobra.Command{worker, keeper}
}

// closeGL ends a renderer, if there is one.
func closeGL(r *virgl.Renderer) error {
	if r == nil {
		return nil
	}
	return r.Close()
}

// withGL adds the counters of a renderer.
func withGL(stats func() backendStats, r *virgl.Renderer) func() backendStats {
	return func() backendStats {
		st, gl := stats(), r.Stats()
		st.GL = &gl
		return st
	}
}

// checkGL looks whether virtual machines can have OpenGL.
func checkGL() check {
	if err := virgl.Probe(); err != nil {
		return check{name: "OpenGL", detail: err.Error(), mend: "not needed: guests have no OpenGL without it, or draw by themselves; " + installGL}
	}
	return check{name: "OpenGL", ok: true, detail: virgl.LibraryName + " renders for virtual machines"}
}

const installGL = "apt-get install --no-install-recommends libvirglrenderer1 libegl1 libopengl0 libgl1-mesa-dri"

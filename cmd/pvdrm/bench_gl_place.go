package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"pvdrm/backend/arbiter"
	guestimage "pvdrm/guest-image"
	"pvdrm/internal/bench"
	"pvdrm/internal/egldevice"
	"pvdrm/vmm"
)

// errNotHere says that a scene is not drawn in a place.
var errNotHere = errors.New("not drawn here")

// glPlace draws scenes somewhere.
type glPlace struct {
	name bench.GLPlace
	env  string // assignments before a shell's command; may be empty
	// shell runs a command of a shell's and returns what it printed.
	shell   func(ctx context.Context, command string) (string, error)
	glscene string // path of the program
	glmark2 bool   // that program is there too

	renderer string   // what the name of the renderer begins with
	twin     *glPlace // draws at the same time; nil without
}

// onProcessors makes Mesa draw on the processors: the first for programs without a
// surface, the second for those that ask GBM for one.
const onProcessors = "LIBGL_ALWAYS_SOFTWARE=1 MESA_LOADER_DRIVER_OVERRIDE=kms_swrast "

// draw draws a scene. With a twin a frame is the mean of both.
func (p *glPlace) draw(ctx context.Context, scene string) (bench.GLSample, error) {
	if p.twin == nil {
		return p.drawAlone(ctx, scene)
	}
	var samples [2]bench.GLSample
	var errs [2]error
	var wg sync.WaitGroup
	for i, one := range []*glPlace{p, p.twin} {
		wg.Go(func() { samples[i], errs[i] = one.drawAlone(ctx, scene) })
	}
	wg.Wait()
	s := samples[0]
	s.Milliseconds = (s.Milliseconds + samples[1].Milliseconds) / 2
	return s, errors.Join(errs[:]...)
}

func (p *glPlace) drawAlone(ctx context.Context, scene string) (bench.GLSample, error) {
	s, err := p.measure(ctx, scene)
	if err == nil && !strings.HasPrefix(s.Renderer, p.renderer) {
		err = fmt.Errorf("drawn by %s, not by %s", s.Renderer, p.renderer)
	}
	return s, err
}

func (p *glPlace) measure(ctx context.Context, scene string) (bench.GLSample, error) {
	s := bench.GLSample{Scene: scene, Place: p.name}
	if name, ok := strings.CutPrefix(scene, glmark2Prefix); ok {
		if !p.glmark2 {
			return s, errNotHere
		}
		out, err := p.shell(ctx, fmt.Sprintf("%sglmark2-es2-drm --off-screen -b %s:duration=%g 2>&1", p.env, name, glAtLeast.Seconds()))
		if err != nil {
			return s, err
		}
		s.Renderer, s.Milliseconds, err = parseGlmark2(out)
		return s, err
	}
	out, err := p.shell(ctx, fmt.Sprintf("%s%s -json -size %s -frames 1 -at-least %v %s", p.env, p.glscene, glSize, glAtLeast, scene))
	if err != nil {
		return s, err
	}
	var r struct {
		Renderer string
		MS       float64 `json:"ms_per_frame"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return s, fmt.Errorf("glscene printed %q: %w", out, err)
	}
	s.Renderer, s.Milliseconds = r.Renderer, r.MS
	return s, nil
}

var (
	glmark2Renderer = regexp.MustCompile(`GL_RENDERER: +(.*)`)
	glmark2Frame    = regexp.MustCompile(`FrameTime: ([0-9.]+) ms`)
)

// parseGlmark2 reads what glmark2 2023.01 prints for one scene.
func parseGlmark2(out string) (renderer string, ms float64, err error) {
	r, f := glmark2Renderer.FindStringSubmatch(out), glmark2Frame.FindStringSubmatch(out)
	if r == nil || f == nil {
		return "", 0, fmt.Errorf("glmark2 printed no result:\n%s", out)
	}
	ms, err = strconv.ParseFloat(f[1], 64)
	return strings.TrimSpace(r[1]), ms, err
}

// start prepares the places that are wanted, and notes why one is absent. stop is
// to be called in any case.
func (f *glBenchFlags) start(ctx context.Context, g *global, absent map[bench.GLPlace]string) (places []*glPlace, stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for _, s := range slices.Backward(stops) {
			err = errors.Join(err, s())
		}
		return err
	}
	add := func(list ...*glPlace) {
		for _, p := range list {
			if f.wants(p.name) {
				places = append(places, p)
			}
		}
	}
	pair := f.wants(bench.GLVirglPair)
	if pair || f.wants(bench.GLSoftware) || f.wants(bench.GLVirgl) {
		dev := f.dev
		if pair && dev.arbiter == "" {
			end, err := f.startArbiter(ctx, g, &dev)
			if err != nil {
				return nil, stop, err
			}
			stops = append(stops, end)
		}
		sh, end, err := f.startGuest(dev)
		if err != nil {
			return nil, stop, err
		}
		stops = append(stops, end)
		virgl := glPlace{name: bench.GLVirgl, shell: sh, glscene: "glscene", glmark2: true, renderer: "virgl"}
		software := virgl
		software.name, software.env, software.renderer = bench.GLSoftware, onProcessors, "llvmpipe"
		add(&software, &virgl)
		if pair {
			dev.guest += "-2"
			if sh, end, err = f.startGuest(dev); err != nil {
				return nil, stop, err
			}
			stops = append(stops, end)
			add(virgl.pairWith(bench.GLVirglPair, sh))
		}
	}
	if pair := f.wants(bench.GLQEMUPair); pair || f.wants(bench.GLQEMU) {
		list, end, err := f.startQEMUs(ctx, pair)
		stops = append(stops, end)
		for _, name := range []bench.GLPlace{bench.GLQEMU, bench.GLQEMUPair} {
			if err != nil && f.wants(name) {
				absent[name] = err.Error()
			}
		}
		add(list...)
	}
	if f.wants(bench.GLHost) {
		p, err := f.onHost()
		if err != nil {
			absent[bench.GLHost] = err.Error()
		} else {
			places = append(places, p)
		}
	}
	return places, stop, nil
}

// pairWith is p and another machine like it.
func (p *glPlace) pairWith(name bench.GLPlace, shell func(context.Context, string) (string, error)) *glPlace {
	first, second := *p, *p
	first.name, second.name = name, name
	second.shell = shell
	first.twin = &second
	return &first
}

// startArbiter starts an arbiter, and has guests of the device use it.
func (f *glBenchFlags) startArbiter(ctx context.Context, g *global, dev *deviceFlags) (stop func() error, err error) {
	log, err := g.logger()
	if err != nil {
		return nil, err
	}
	dir, err := newRunDir()
	if err != nil {
		return nil, err
	}
	dev.arbiter = dir.path(socketArbiter)
	// It outlives ctx: the backends need it until they are down.
	a, err := startArbiter(context.WithoutCancel(ctx), log, dev.arbiter, arbiter.DefaultPolicy, nil)
	if err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	return func() error { return errors.Join(a.stop(), dir.remove()) }, nil
}

// onHost draws on the host, as PVDRM renders: on the processors unless there is a
// render node.
func (f *glBenchFlags) onHost() (*glPlace, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding pvdrm's own file: %w", err)
	}
	program := filepath.Join(filepath.Dir(self), "guest", "glscene")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w: `make build` makes it", err)
	}
	p := &glPlace{name: bench.GLHost, glscene: program}
	if f.dev.gl.node == "" {
		p.env = onProcessors
	} else if _, ok, err := egldevice.Parse(f.dev.gl.node); err != nil {
		return nil, err
	} else if ok {
		p.glscene += " -device " + f.dev.gl.node
	}
	p.shell = func(ctx context.Context, command string) (string, error) {
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said.Bytes())
		}
		return string(out), err
	}
	return p, nil
}

// startGuest boots a machine with PVDRM's GPU, by a pvdrm of its own, and returns
// a shell in it.
func (f *glBenchFlags) startGuest(dev deviceFlags) (sh func(context.Context, string) (string, error), stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding pvdrm's own file: %w", err)
	}
	args := append([]string{"up", "--console=false", "--image", guestimage.Mesa, "--qemu", f.qemu, "--accel", f.accel, "--cache", f.cache,
		"--memory", fmt.Sprint(f.memory), "--resolution", glSize}, dev.args()...)
	cmd := exec.Command(self, append(args, "--gl", glOn, "--", "sh")...)
	to, from, err := startPiped(cmd)
	if err != nil {
		return nil, nil, fmt.Errorf("starting pvdrm up: %w", err)
	}
	lines := bufio.NewReader(from)
	sh = func(ctx context.Context, command string) (string, error) {
		stop := context.AfterFunc(ctx, func() { _ = to.Close() }) // ends the shell, and so the reading
		defer stop()
		const mark = "pvdrm-bench-end "
		if _, err := fmt.Fprintf(to, "%s; echo %s$?\n", command, mark); err != nil {
			return "", fmt.Errorf("the guest's shell has ended: %w", errors.Join(err, ctx.Err()))
		}
		var out strings.Builder
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return "", fmt.Errorf("the guest's shell has ended: %w", errors.Join(err, ctx.Err()))
			}
			if code, ok := strings.CutPrefix(line, mark); ok {
				if code = strings.TrimSpace(code); code != "0" {
					return "", fmt.Errorf("%s ended with %s: %s", command, code, out.String())
				}
				return out.String(), nil
			}
			out.WriteString(line)
		}
	}
	stop = func() error {
		_ = to.Close() // it may have been closed
		timer := time.AfterFunc(15*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
		defer timer.Stop()
		return cmd.Wait()
	}
	return sh, stop, nil
}

// startQEMUs boots a machine with QEMU's own virtio-gpu-gl, or two. That renders
// where QEMU has a window with OpenGL only. stop is to be called in any case.
func (f *glBenchFlags) startQEMUs(ctx context.Context, two bool) (list []*glPlace, stop func() error, err error) {
	stop = func() error { return nil }
	if os.Getenv("DISPLAY") == "" {
		if stop, err = startXvfb(); err != nil {
			return nil, stop, err
		}
	}
	image, err := findImage(f.cache, guestimage.Mesa, func() (guestimage.Image, error) { return buildImage(ctx, f.cache, guestimage.Mesa, false, false) })
	if err != nil {
		return nil, stop, err
	}
	start := func() (func(context.Context, string) (string, error), error) {
		sh, end, err := f.startQEMU(ctx, image)
		x := stop
		stop = func() error { return errors.Join(end(), x()) }
		return sh, err
	}
	sh, err := start()
	if err != nil {
		return nil, stop, err
	}
	p := &glPlace{name: bench.GLQEMU, shell: sh, renderer: "virgl", glscene: "glscene", glmark2: true}
	list = append(list, p)
	if two {
		if sh, err = start(); err != nil {
			return nil, stop, err
		}
		list = append(list, p.pairWith(bench.GLQEMUPair, sh))
	}
	return list, stop, nil
}

// startQEMU boots one such machine, and returns a shell in it. stop is to be called
// in any case.
func (f *glBenchFlags) startQEMU(ctx context.Context, image guestimage.Image) (sh func(context.Context, string) (string, error), stop func() error, err error) {
	machine, err := vmm.Start(ctx, vmm.Config{QEMU: f.qemu, Accel: f.accel, MemoryMiB: f.memory, CacheDir: f.cache,
		Kernel: image.Kernel, Initrd: image.Initrd, Disk: image.Disk, Append: quietConsole,
		Display: "sdl", ExtraArgs: []string{"-device", "virtio-gpu-gl-pci"}})
	if err != nil {
		return nil, func() error { return nil }, fmt.Errorf("%w (on Debian: apt-get install -t bookworm-backports qemu-system-gui qemu-system-modules-opengl)", err)
	}
	stop = func() error {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		return machine.Shutdown(end)
	}
	sh = func(ctx context.Context, command string) (string, error) {
		var out, said bytes.Buffer
		code, err := machine.Run(ctx, []string{"sh", "-c", command}, nil, &out, &said)
		if err == nil && code != 0 {
			err = fmt.Errorf("%s ended with %d: %s%s", command, code, out.Bytes(), said.Bytes())
		}
		return out.String(), err
	}
	return sh, stop, machine.WaitReady(ctx)
}

// startXvfb starts an X server without a screen, and makes it ours.
func startXvfb() (stop func() error, err error) {
	stop = func() error { return nil }
	path, err := exec.LookPath("Xvfb")
	if err != nil {
		return stop, errors.New("there is neither a screen nor Xvfb (on Debian: apt-get install xvfb)")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return stop, err
	}
	defer func() { _ = r.Close() }() // read to its end below
	cmd := exec.Command(path, "-displayfd", "3", "-screen", "0", "1280x1024x24", "-nolisten", "tcp")
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	_ = w.Close() // our copy
	if err != nil {
		return stop, fmt.Errorf("starting Xvfb: %w", err)
	}
	stop = func() error {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
		return nil
	}
	number, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return stop, fmt.Errorf("starting Xvfb: it named no display: %w", err)
	}
	return stop, os.Setenv("DISPLAY", ":"+strings.TrimSpace(number))
}

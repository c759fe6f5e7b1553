package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	guestimage "pvdrm/guest-image"
	"pvdrm/internal/bench"
	"pvdrm/internal/bench/agent"
	"pvdrm/vmm"
)

// glBenchFlags are the flags of `pvdrm bench gl`.
type glBenchFlags struct {
	dev         deviceFlags
	scenes      []string
	places      []string
	runs        int
	quick       bool
	json, html  string
	qemu, accel string
	cache       string
	memory      int
}

// glmark2Prefix begins the names of glmark2's scenes.
const glmark2Prefix = "glmark2:"

// glsceneScenes are those of glscene.
var glsceneScenes = []string{"triangle", "textures", "shader", "cubes"}

// glScenes are drawn unless --scenes says otherwise: those of glscene, then some of
// glmark2's, which is not run on the host.
var glScenes = append(slices.Clone(glsceneScenes), glmark2Prefix+"build", glmark2Prefix+"texture", glmark2Prefix+"shading")

const (
	glRuns      = 6
	glQuickRuns = 3
	// glSize is the size of pictures and of the guests' screens.
	glSize = "640x480"
	// glAtLeast is how long a scene is drawn in each run, at least.
	glAtLeast = time.Second
)

func newBenchGL(g *global) *cobra.Command {
	var f glBenchFlags
	c := &cobra.Command{
		Use:   "gl [flags]",
		Short: "Measure how long OpenGL takes in a virtual machine, for QEMU's own device and on the host",
		Long: `Draw scenes of 640x480 pixels off screen and compare the time of a frame:

  guest-llvmpipe  in a virtual machine, on its own processors
  pvdrm-virgl     in that machine, rendered by PVDRM on the host
  qemu-virgl      in another machine with QEMU's own virtio-gpu-gl, which needs
                  QEMU's SDL window with OpenGL; on a host without a screen
                  one is made with Xvfb
  host            on the host, without a machine
  pvdrm-virgl-x2  in two machines at once, which share the GPU by an arbiter
  qemu-virgl-x2   in two machines at once with QEMU's own

Each round draws each scene once in each of them. Run it on a quiet machine. A
frame has ended before the next begins, so that times are latencies.`,
		Example: "  pvdrm bench gl --quick\n  pvdrm bench gl --scenes triangle,cubes --json out/gl.json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(c); err != nil {
				return usageError{err}
			}
			return f.run(c.Context(), g, c.OutOrStdout())
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.StringSliceVar(&f.scenes, "scenes", glScenes, "scenes of glscene, and of glmark2 after "+glmark2Prefix)
	fl.StringSliceVar(&f.places, "places", glPlaceNames(), "where to draw")
	fl.IntVar(&f.runs, "runs", glRuns, "rounds; with more than one the first is thrown away")
	fl.BoolVar(&f.quick, "quick", false, fmt.Sprintf("%d rounds, nothing of glmark2, and one machine at a time", glQuickRuns))
	fl.StringVar(&f.json, "json", "", "write the results to this file as JSON")
	fl.StringVar(&f.html, "html", "", "write a report to this file, HTML that needs nothing else")
	fl.StringVar(&f.qemu, "qemu", defaultQEMU(), "QEMU to use, name or path")
	fl.StringVar(&f.accel, "accel", vmm.Auto, "what runs the guests' processors: kvm, tcg, or auto: kvm where it works")
	fl.StringVar(&f.cache, "cache", guestimage.DefaultCacheDir(), "directory for images")
	fl.IntVar(&f.memory, "memory", vmm.DefaultMemoryMiB, "memory of each machine, MiB")
	return c
}

func glPlaceNames() (names []string) {
	for _, p := range bench.GLPlaces {
		names = append(names, string(p))
	}
	return names
}

func (f *glBenchFlags) complete(c *cobra.Command) error {
	if f.quick && !c.Flags().Changed("runs") {
		f.runs = glQuickRuns
	}
	if f.quick && !c.Flags().Changed("scenes") {
		f.scenes = slices.Clone(glsceneScenes)
	}
	if f.quick && !c.Flags().Changed("places") {
		f.places = slices.DeleteFunc(f.places, func(p string) bool { return p == string(bench.GLVirglPair) || p == string(bench.GLQEMUPair) })
	}
	if f.runs < 1 {
		return fmt.Errorf("--runs %d: must be at least 1", f.runs)
	}
	if len(f.scenes) == 0 || len(f.places) == 0 {
		return errors.New("--scenes and --places: name at least one")
	}
	for _, s := range f.scenes {
		// They become words of a shell's in the guest.
		if name := strings.TrimPrefix(s, glmark2Prefix); name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("--scenes: %q is no name of a scene", s)
		}
		if !strings.HasPrefix(s, glmark2Prefix) && !slices.Contains(glsceneScenes, s) {
			return fmt.Errorf("--scenes: unknown scene %q (want %s, or one of glmark2's after %s)", s, strings.Join(glsceneScenes, ", "), glmark2Prefix)
		}
	}
	for _, p := range f.places {
		if !slices.Contains(glPlaceNames(), p) {
			return fmt.Errorf("--places: there is no place %q, only %s", p, strings.Join(glPlaceNames(), ", "))
		}
	}
	return nil
}

func (f *glBenchFlags) wants(p bench.GLPlace) bool { return slices.Contains(f.places, string(p)) }

// run measures and reports.
func (f *glBenchFlags) run(ctx context.Context, g *global, out io.Writer) (err error) {
	files, err := f.create() // before anything is measured, so that a wrong path costs no time
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.close()) }()
	r := bench.GLReport{Absent: map[bench.GLPlace]string{}, Header: bench.Header{
		Date: time.Now(), Command: "pvdrm " + strings.Join(os.Args[1:], " "), Runs: f.runs}}
	places, stop, err := f.start(ctx, g, r.Absent)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	r.Header.Facts = f.facts(ctx)
	status := newStatus()
	defer status.clear()
	var samples []bench.GLSample
	for round := range f.runs {
		for _, scene := range f.scenes {
			for _, p := range places {
				status.show(fmt.Sprintf("round %d of %d: %s, %s", round+1, f.runs, scene, p.name))
				s, err := p.draw(ctx, scene)
				if errors.Is(err, errNotHere) {
					continue
				}
				if err != nil {
					return fmt.Errorf("%s, %s: %w", scene, p.name, err)
				}
				s.Round = round
				if round > 0 || f.runs == 1 {
					samples = append(samples, s)
				}
			}
		}
	}
	status.clear()
	r.Rows = bench.GLRows(samples)
	if err := r.WriteText(out); err != nil {
		return err
	}
	for _, x := range files {
		err = errors.Join(err, x.write(r, x.file))
	}
	return err
}

// create makes the files that the report goes to.
func (f *glBenchFlags) create() (files benchFiles[bench.GLReport], err error) {
	return createFiles([]reportTo[bench.GLReport]{{f.json, bench.GLReport.WriteJSON}, {f.html, bench.GLReport.WriteHTML}})
}

func (f *glBenchFlags) facts(ctx context.Context) []bench.Fact {
	h := agent.Here()
	facts := []bench.Fact{
		{Name: "host", Value: fmt.Sprintf("%s, %d processors: %s", h.System, h.Processors, h.Processor)},
		{Name: "load before", Value: loadAverage()},
		{Name: "pvdrm", Value: fmt.Sprintf("%s, %s", version, runtime.Version())},
	}
	if q, err := vmm.FindQEMU(ctx, f.qemu); err == nil { // where none is needed none may be there
		facts = append(facts, bench.Fact{Name: "QEMU", Value: q.Version.String()})
	}
	return facts
}

package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/bench"
)

func TestBenchGLFlags(t *testing.T) {
	good := func() glBenchFlags { return glBenchFlags{runs: 1, scenes: glScenes, places: glPlaceNames()} }
	c := newBenchGL(&global{})
	f := good()
	require.NoError(t, f.complete(c))
	for why, spoil := range map[string]func(*glBenchFlags){
		"no rounds":         func(f *glBenchFlags) { f.runs = 0 },
		"no scenes":         func(f *glBenchFlags) { f.scenes = nil },
		"no places":         func(f *glBenchFlags) { f.places = nil },
		"a command":         func(f *glBenchFlags) { f.scenes = []string{"a;reboot"} },
		"an empty name":     func(f *glBenchFlags) { f.scenes = []string{"cubes", ""} },
		"an unknown scene":  func(f *glBenchFlags) { f.scenes = []string{"teapot"} },
		"a name of nothing": func(f *glBenchFlags) { f.scenes = []string{glmark2Prefix} },
		"an unknown place":  func(f *glBenchFlags) { f.places = []string{"moon"} },
	} {
		f := good()
		spoil(&f)
		require.Error(t, f.complete(c), why)
	}
	f = good()
	f.quick = true
	require.NoError(t, f.complete(c))
	require.Equal(t, glQuickRuns, f.runs)
	require.Equal(t, []string{"triangle", "textures", "shader", "cubes"}, f.scenes)
}

func TestDrawingInAPlace(t *testing.T) {
	answers := map[string]string{
		"glscene": `{"scene":"cubes","renderer":"virgl (llvmpipe)","ms_per_frame":2.5}` + "\n",
		"glmark2": "    GL_RENDERER:    virgl (x) \n[build] duration=1.0: FPS: 117 FrameTime: 8.587 ms\n",
	}
	var asked string
	p := glPlace{name: bench.GLVirgl, env: "A=1 ", renderer: "virgl", glscene: "glscene", glmark2: true,
		shell: func(_ context.Context, command string) (string, error) {
			asked = command
			program, _, _ := strings.Cut(strings.TrimPrefix(command, "A=1 "), " ")
			program, _, _ = strings.Cut(program, "-")
			return answers[program], nil
		}}
	s, err := p.draw(t.Context(), "cubes")
	require.NoError(t, err)
	require.Equal(t, bench.GLSample{Scene: "cubes", Place: bench.GLVirgl, Renderer: "virgl (llvmpipe)", Milliseconds: 2.5}, s)
	require.Equal(t, "A=1 glscene -json -size 640x480 -frames 1 -at-least 1s cubes", asked)
	s, err = p.draw(t.Context(), "glmark2:build")
	require.NoError(t, err)
	require.Equal(t, bench.GLSample{Scene: "glmark2:build", Place: bench.GLVirgl, Renderer: "virgl (x)", Milliseconds: 8.587}, s)
	require.Contains(t, asked, "-b build:duration=1 ")

	p.renderer = "llvmpipe"
	_, err = p.draw(t.Context(), "cubes")
	require.ErrorContains(t, err, "drawn by virgl (llvmpipe), not by llvmpipe")
	p.glmark2 = false
	_, err = p.draw(t.Context(), "glmark2:build")
	require.ErrorIs(t, err, errNotHere)
	answers["glscene"] = "no such scene"
	_, err = p.draw(t.Context(), "cubes")
	require.ErrorContains(t, err, `glscene printed "no such scene"`)
}

// Two machines draw at the same time, and a frame is the mean of both.
func TestGLPair(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	shell := func(ms string) func(context.Context, string) (string, error) {
		return func(context.Context, string) (string, error) {
			both.Done()
			both.Wait() // for the other
			return `{"renderer":"virgl","ms_per_frame":` + ms + "}", nil
		}
	}
	one := &glPlace{name: bench.GLVirgl, renderer: "virgl", glscene: "glscene", shell: shell("2")}
	pair := one.pairWith(bench.GLVirglPair, shell("4"))
	s, err := pair.draw(t.Context(), "cubes")
	require.NoError(t, err)
	require.Equal(t, bench.GLSample{Scene: "cubes", Place: bench.GLVirglPair, Renderer: "virgl", Milliseconds: 3}, s)
	require.Nil(t, one.twin)
	both.Add(2)
	pair.twin.renderer = "softpipe"
	_, err = pair.draw(t.Context(), "cubes")
	require.ErrorContains(t, err, "drawn by virgl, not by softpipe")
}

func TestSpinnerArgs(t *testing.T) {
	tail := func(workload ...string) string {
		args := spinnerArgs(deviceFlags{}, workload, false)
		return args[0] + " …" + strings.Join(args[slices.Index(args, "--"):], " ")
	}
	require.Equal(t, "run …-- gdev spin 100us rounds", tail("100us", "rounds"))
	require.Equal(t, "up …-- glscene -spin -size 640x480 cubes", tail("gl:cubes"))
	require.Equal(t, "up …-- glscene -spin -size 160x120 shader", tail("gl:shader@160x120"))
	machine := spinnerArgs(deviceFlags{}, []string{"madd"}, true)
	require.Equal(t, "up", machine[0])
	require.Equal(t, []string{"--", "gdev", "spin", "madd"}, machine[len(machine)-4:])
}

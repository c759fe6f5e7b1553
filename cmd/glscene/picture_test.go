package main

import (
	"encoding/binary"
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func picture(w, h int, set map[image.Point]color.NRGBA) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range m.Pix {
		m.Pix[i] = 100
	}
	for p, c := range set {
		m.SetNRGBA(p.X, p.Y, c)
	}
	return m
}

func TestCompare(t *testing.T) {
	a := picture(4, 2, nil)
	b := picture(4, 2, map[image.Point]color.NRGBA{
		{0, 0}: {101, 100, 100, 100}, {1, 0}: {100, 90, 100, 100}, {2, 1}: {100, 100, 100, 0},
	})
	d, err := compare(a, b, 1)
	require.NoError(t, err)
	require.Equal(t, difference{pixels: 8, different: 2, outside: 1, most: 10}, d, "alpha does not count")
	_, err = compare(a, picture(2, 4, nil), 255)
	require.ErrorContains(t, err, "one picture has (4,2) pixels, the other (2,4)")
}

func TestComparePictures(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	full := color.NRGBA{100, 100, 100, 255}
	for name, m := range map[string]*image.NRGBA{
		"a": picture(10, 10, map[image.Point]color.NRGBA{{0, 0}: full}),
		"b": picture(10, 10, map[image.Point]color.NRGBA{{0, 0}: {103, 100, 100, 255}}),
	} {
		for i := 3; i < len(m.Pix); i += 4 {
			m.Pix[i] = 255
		}
		require.NoError(t, writePicture(path(name), m))
	}
	require.NoError(t, os.WriteFile(path("text"), []byte("no picture"), 0o644))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{path("a"), path("a")}, ""},
		{[]string{path("a"), path("b")}, "1 of 100 pixels differ, 1 by more than the tolerance, at most by 3"},
		{[]string{"-tolerance", "3", path("a"), path("b")}, ""},
		{[]string{"-tolerance", "2", "-outside", "1", path("a"), path("b")}, ""},
		{[]string{"-tolerance", "2", "-outside", "0.9", path("a"), path("b")}, "differ"},
		{[]string{path("a"), path("text")}, "png"},
		{[]string{path("a"), path("gone")}, "no such file"},
		{[]string{path("a")}, "two files"},
	} {
		err := comparePictures(tc.args)
		if tc.want == "" {
			require.NoError(t, err, tc.args)
		} else {
			require.ErrorContains(t, err, tc.want, tc.args)
		}
	}
}

func TestWrongDrawing(t *testing.T) {
	for want, args := range map[string][]string{
		"name at least one scene":        nil,
		"unknown scene \"teapot\" (want": {"teapot"},
		"say width and height":           {"-size", "0x5", "cubes"},
		"/no/such: no such file":         {"-screen", "-card", "/no/such", "cubes"},
		"draw at least one frame":        {"-frames", "0", "cubes"},
		"flag provided but not defined":  {"-nonsense"},
	} {
		require.ErrorContains(t, drawScenes(args), want)
	}
}

// TestCube looks whether all triangles are counter-clockwise from outside.
func TestCube(t *testing.T) {
	vertices, indices := cube()
	require.Len(t, indices, 6*6*2)
	vertex := func(i int) (position, normal [3]float32) {
		at := int(binary.LittleEndian.Uint16(indices[2*i:])) * 24
		for c := range 3 {
			position[c] = math.Float32frombits(binary.LittleEndian.Uint32(vertices[at+4*c:]))
			normal[c] = math.Float32frombits(binary.LittleEndian.Uint32(vertices[at+12+4*c:]))
		}
		return position, normal
	}
	for i := 0; i < 36; i += 3 {
		a, n := vertex(i)
		b, _ := vertex(i + 1)
		c, _ := vertex(i + 2)
		var u, v [3]float32
		for k := range 3 {
			u[k], v[k] = b[k]-a[k], c[k]-a[k]
		}
		out := n[0]*(u[1]*v[2]-u[2]*v[1]) + n[1]*(u[2]*v[0]-u[0]*v[2]) + n[2]*(u[0]*v[1]-u[1]*v[0])
		require.Equal(t, float32(4), out, "triangle %d", i/3)
	}
}

func TestTexturesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for kind := range textureKinds {
		b := texture(kind)
		require.Len(t, b, 4*textureSide*textureSide)
		seen[string(b)] = true
	}
	require.Len(t, seen, textureKinds)
}

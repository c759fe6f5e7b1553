package main

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// scene draws pictures of a given size that depend on the frame number alone.
type scene struct {
	name, text string
	// prepare makes what the scene needs and returns what draws one frame.
	prepare func(g *gles, w, h int32) (draw func(frame int), err error)
}

var scenes = []scene{
	{name: "triangle", text: "one triangle, colours between its corners", prepare: prepareTriangle},
	{name: "textures", text: "256 blended squares with mipmapped textures", prepare: prepareTextures},
	{name: "shader", text: "a long fragment shader for each pixel", prepare: prepareShader},
	{name: "cubes", text: "125 draws of a lit cube with a depth buffer", prepare: prepareCubes},
}

func findScene(name string) (scene, error) {
	var names []string
	for _, s := range scenes {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return scene{}, fmt.Errorf("unknown scene %q (want %s)", name, strings.Join(names, ", "))
}

// turn is the angle of a frame: a full turn takes 100 frames.
func turn(frame int) float32 { return float32(frame) * 2 * math.Pi / 100 }

func floats(v ...float32) (b []byte) {
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// shaders of the scenes. The precision is highp everywhere, so that all renderers
// compute alike.
var (
	//go:embed shaders/triangle.vert
	triangleVertex string
	//go:embed shaders/triangle.frag
	triangleFragment string
	//go:embed shaders/textures.vert
	texturesVertex string
	//go:embed shaders/textures.frag
	texturesFragment string
	//go:embed shaders/shader.vert
	shaderVertex string
	//go:embed shaders/shader.frag
	shaderFragment string
	//go:embed shaders/cubes.vert
	cubesVertex string
	//go:embed shaders/cubes.frag
	cubesFragment string
)

func prepareTriangle(g *gles, w, h int32) (func(int), error) {
	p, err := g.program(triangleVertex, triangleFragment, "position", "color")
	if err != nil {
		return nil, err
	}
	g.buffer(glArrayBuffer, floats(
		0, 0.8, 1, 0, 0,
		-0.7, -0.5, 0, 1, 0,
		0.7, -0.5, 0, 0, 1))
	g.VertexAttribPointer(0, 2, glFloat, false, 20, 0)
	g.VertexAttribPointer(1, 3, glFloat, false, 20, 8)
	g.EnableVertexAttribArray(0)
	g.EnableVertexAttribArray(1)
	angle := g.GetUniformLocation(p, "angle")
	g.Uniform1f(g.GetUniformLocation(p, "aspect"), float32(h)/float32(w))
	return func(frame int) {
		g.ClearColor(0.1, 0.1, 0.2, 1)
		g.Clear(glColorBufferBit)
		g.Uniform1f(angle, turn(frame))
		g.DrawArrays(glTriangles, 0, 3)
	}, nil
}

// textureSide is the width and height of the textures, in pixels.
const textureSide = 256

// textureKinds is how many textures there are.
const textureKinds = 4

// texture fills a texture with a pattern of its own.
func texture(kind int) []byte {
	b := make([]byte, 0, 4*textureSide*textureSide)
	for y := range textureSide {
		for x := range textureSide {
			var px [4]byte
			switch kind {
			case 0: // a chessboard
				px = [4]byte{byte(x / 32 & 1 * 255), byte(y / 32 & 1 * 255), 128, 255}
			case 1: // gradients
				px = [4]byte{byte(x), byte(y), byte(255 - x), 192}
			case 2: // rings
				d := (x-128)*(x-128) + (y-128)*(y-128)
				px = [4]byte{byte(d >> 6), byte(d >> 5), byte(d >> 7), 160}
			default: // bits
				px = [4]byte{byte(x ^ y), byte(x & y), byte(x | y), 224}
			}
			b = append(b, px[:]...)
		}
	}
	return b
}

func prepareTextures(g *gles, w, h int32) (func(int), error) {
	p, err := g.program(texturesVertex, texturesFragment, "corner")
	if err != nil {
		return nil, err
	}
	var ids [textureKinds]uint32
	g.GenTextures(textureKinds, &ids[0])
	for kind, id := range ids {
		g.BindTexture(glTexture2D, id)
		g.TexImage2D(glTexture2D, 0, glRGBA, textureSide, textureSide, 0, glRGBA, glUnsignedByte, texture(kind))
		g.GenerateMipmap(glTexture2D)
		g.TexParameteri(glTexture2D, glTextureMinFilter, glLinearMipmapLinear)
		g.TexParameteri(glTexture2D, glTextureMagFilter, glLinear)
	}
	g.buffer(glArrayBuffer, floats(-1, -1, 1, -1, -1, 1, -1, 1, 1, -1, 1, 1))
	g.VertexAttribPointer(0, 2, glFloat, false, 8, 0)
	g.EnableVertexAttribArray(0)
	place := g.GetUniformLocation(p, "place")
	g.ActiveTexture(glTexture0)
	g.Uniform1i(g.GetUniformLocation(p, "image"), 0)
	g.Uniform1f(g.GetUniformLocation(p, "aspect"), float32(h)/float32(w))
	const side = 16 // squares in a row
	return func(frame int) {
		g.ClearColor(0, 0, 0, 1)
		g.Clear(glColorBufferBit)
		g.Enable(glBlend)
		g.BlendFunc(glSrcAlpha, glOneMinusSrcAlpha)
		for i := range side * side {
			g.BindTexture(glTexture2D, ids[i%textureKinds])
			x, y := float32(i%side), float32(i/side)
			size := 0.04 + 0.01*float32(i%7)
			g.Uniform4f(place, (x+0.5)*2/side-1, (y+0.5)*2/side-1, size, turn(frame)+float32(i)/10)
			g.DrawArrays(glTriangles, 0, 6)
		}
		g.Disable(glBlend)
	}, nil
}

func prepareShader(g *gles, w, h int32) (func(int), error) {
	p, err := g.program(shaderVertex, shaderFragment, "corner")
	if err != nil {
		return nil, err
	}
	g.buffer(glArrayBuffer, floats(-1, -1, 3, -1, -1, 3)) // it covers everything
	g.VertexAttribPointer(0, 2, glFloat, false, 8, 0)
	g.EnableVertexAttribArray(0)
	g.Uniform2f(g.GetUniformLocation(p, "scale"), 3*float32(w)/float32(h), 3)
	angle := g.GetUniformLocation(p, "angle")
	return func(frame int) {
		g.Uniform1f(angle, turn(frame))
		g.DrawArrays(glTriangles, 0, 3)
	}, nil
}

// cube returns the vertices of a cube, position and normal each, and the indices
// of its triangles.
func cube() (vertices, indices []byte) {
	var v []float32
	for axis := range 3 {
		for _, side := range []float32{-1, 1} {
			first := uint16(len(v) / 6)
			for _, c := range [][2]float32{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}} {
				var pos, normal [3]float32
				pos[axis], pos[(axis+1)%3], pos[(axis+2)%3] = side, c[0], c[1]
				normal[axis] = side
				v = append(append(v, pos[:]...), normal[:]...)
			}
			corners := []uint16{0, 1, 2, 0, 2, 3}
			if side < 0 {
				slices.Reverse(corners) // counter-clockwise from outside
			}
			for _, i := range corners {
				indices = binary.LittleEndian.AppendUint16(indices, first+i)
			}
		}
	}
	return floats(v...), indices
}

func prepareCubes(g *gles, w, h int32) (func(int), error) {
	p, err := g.program(cubesVertex, cubesFragment, "position", "normal")
	if err != nil {
		return nil, err
	}
	vertices, indices := cube()
	g.buffer(glArrayBuffer, vertices)
	g.buffer(glElementArrayBuffer, indices)
	g.VertexAttribPointer(0, 3, glFloat, false, 24, 0)
	g.VertexAttribPointer(1, 3, glFloat, false, 24, 12)
	g.EnableVertexAttribArray(0)
	g.EnableVertexAttribArray(1)
	place, color := g.GetUniformLocation(p, "place"), g.GetUniformLocation(p, "color")
	g.Uniform1f(g.GetUniformLocation(p, "aspect"), float32(h)/float32(w))
	const side = 5 // cubes in each direction
	return func(frame int) {
		g.ClearColor(0.05, 0.05, 0.1, 1)
		g.Clear(glColorBufferBit | glDepthBufferBit)
		g.Enable(glDepthTest)
		g.Enable(glCullFace)
		for i := range side * side * side {
			x, y, z := i%side, i/side%side, i/(side*side)
			at := func(n int) float32 { return 1.6 * float32(n-side/2) }
			shade := func(n int) float32 { return 0.25 + 0.75*float32(n)/(side-1) }
			g.Uniform4f(place, at(x), at(y), at(z), turn(frame)+float32(i)/20)
			g.Uniform4f(color, shade(x), shade(y), shade(z), 1)
			g.DrawElements(glTriangles, 36, glUnsignedShort, 0)
		}
		g.Disable(glDepthTest)
		g.Disable(glCullFace)
	}, nil
}

package main

import (
	"fmt"
	"runtime"
	"strings"
)

// Constants of OpenGL ES 2.0 (Khronos' gl2.h).
const (
	glTriangles          = 0x0004
	glDepthBufferBit     = 0x0100
	glColorBufferBit     = 0x4000
	glSrcAlpha           = 0x0302
	glOneMinusSrcAlpha   = 0x0303
	glCullFace           = 0x0b44
	glDepthTest          = 0x0b71
	glBlend              = 0x0be2
	glTexture2D          = 0x0de1
	glUnsignedByte       = 0x1401
	glUnsignedShort      = 0x1403
	glFloat              = 0x1406
	glRGBA               = 0x1908
	glRenderer           = 0x1f01
	glVersion            = 0x1f02
	glLinear             = 0x2601
	glLinearMipmapLinear = 0x2703
	glTextureMagFilter   = 0x2800
	glTextureMinFilter   = 0x2801
	glDepthComponent16   = 0x81a5
	glTexture0           = 0x84c0
	glArrayBuffer        = 0x8892
	glElementArrayBuffer = 0x8893
	glStaticDraw         = 0x88e4
	glFragmentShader     = 0x8b30
	glVertexShader       = 0x8b31
	glCompileStatus      = 0x8b81
	glLinkStatus         = 0x8b82
	glFramebufferDone    = 0x8cd5
	glColorAttachment0   = 0x8ce0
	glDepthAttachment    = 0x8d00
	glFramebuffer        = 0x8d40
	glRenderbuffer       = 0x8d41
)

// gles are the functions of libGLESv2 that the scenes use, with the types of gl2.h.
type gles struct {
	ActiveTexture           func(unit uint32)
	AttachShader            func(program, shader uint32)
	BindAttribLocation      func(program, index uint32, name string)
	BindBuffer              func(target, buffer uint32)
	BindFramebuffer         func(target, framebuffer uint32)
	BindRenderbuffer        func(target, renderbuffer uint32)
	BindTexture             func(target, texture uint32)
	BlendFunc               func(source, destination uint32)
	BufferData              func(target uint32, size int, data []byte, usage uint32)
	CheckFramebufferStatus  func(target uint32) uint32
	Clear                   func(mask uint32)
	ClearColor              func(r, g, b, a float32)
	CompileShader           func(shader uint32)
	CreateProgram           func() uint32
	CreateShader            func(kind uint32) uint32
	Disable                 func(what uint32)
	DrawArrays              func(mode uint32, first, count int32)
	DrawElements            func(mode uint32, count int32, kind uint32, offset uintptr)
	Enable                  func(what uint32)
	EnableVertexAttribArray func(index uint32)
	Finish                  func()
	Flush                   func()
	FramebufferRenderbuffer func(target, attachment, kind, renderbuffer uint32)
	FramebufferTexture2D    func(target, attachment, kind, texture uint32, level int32)
	GenBuffers              func(n int32, ids *uint32)
	GenFramebuffers         func(n int32, ids *uint32)
	GenRenderbuffers        func(n int32, ids *uint32)
	GenTextures             func(n int32, ids *uint32)
	GenerateMipmap          func(target uint32)
	GetError                func() uint32
	GetProgramInfoLog       func(program uint32, room int32, length *int32, text []byte)
	GetProgramiv            func(program, name uint32, value *int32)
	GetShaderInfoLog        func(shader uint32, room int32, length *int32, text []byte)
	GetShaderiv             func(shader, name uint32, value *int32)
	GetString               func(name uint32) string
	GetUniformLocation      func(program uint32, name string) int32
	LinkProgram             func(program uint32)
	ReadPixels              func(x, y, w, h int32, format, kind uint32, pixels []byte)
	RenderbufferStorage     func(target, format uint32, w, h int32)
	ShaderSource            func(shader uint32, count int32, texts **byte, lengths *int32)
	TexImage2D              func(target uint32, level, internal, w, h, border int32, format, kind uint32, pixels []byte)
	TexParameteri           func(target, name uint32, value int32)
	Uniform1f               func(location int32, v float32)
	Uniform1i               func(location, v int32)
	Uniform2f               func(location int32, x, y float32)
	Uniform4f               func(location int32, x, y, z, w float32)
	UniformMatrix4fv        func(location, count int32, transpose bool, m *float32)
	UseProgram              func(program uint32)
	VertexAttribPointer     func(index uint32, size int32, kind uint32, normalized bool, stride int32, offset uintptr)
	Viewport                func(x, y, w, h int32)
}

// loadGLES opens libGLESv2.
func loadGLES() (*gles, error) {
	g := &gles{}
	return g, loadFunctions("libGLESv2.so.2", "gl", "libgles2", g)
}

// program compiles and links a program. Attributes get the numbers 0, 1, … in order.
func (g *gles) program(vertex, fragment string, attributes ...string) (uint32, error) {
	p := g.CreateProgram()
	for _, s := range []struct {
		kind uint32
		text string
	}{{glVertexShader, vertex}, {glFragmentShader, fragment}} {
		shader, err := g.shader(s.kind, s.text)
		if err != nil {
			return 0, err
		}
		g.AttachShader(p, shader)
	}
	for i, name := range attributes {
		g.BindAttribLocation(p, uint32(i), name)
	}
	g.LinkProgram(p)
	var ok int32
	if g.GetProgramiv(p, glLinkStatus, &ok); ok == 0 {
		return 0, fmt.Errorf("linking shaders: %s", infoLog(g.GetProgramInfoLog, p))
	}
	g.UseProgram(p)
	return p, nil
}

func (g *gles) shader(kind uint32, text string) (uint32, error) {
	s := g.CreateShader(kind)
	b := []byte(text)
	start, length := &b[0], int32(len(b))
	g.ShaderSource(s, 1, &start, &length)
	runtime.KeepAlive(b)
	g.CompileShader(s)
	var ok int32
	if g.GetShaderiv(s, glCompileStatus, &ok); ok == 0 {
		return 0, fmt.Errorf("compiling a shader: %s", infoLog(g.GetShaderInfoLog, s))
	}
	return s, nil
}

func infoLog(get func(uint32, int32, *int32, []byte), id uint32) string {
	text, n := make([]byte, 4096), int32(0)
	get(id, int32(len(text)), &n, text)
	return strings.TrimSpace(string(text[:n]))
}

// buffer makes a buffer with data, and leaves it bound.
func (g *gles) buffer(target uint32, data []byte) {
	var id uint32
	g.GenBuffers(1, &id)
	g.BindBuffer(target, id)
	g.BufferData(target, len(data), data, glStaticDraw)
}

// target makes a framebuffer with colour and depth, and leaves it bound.
func (g *gles) target(w, h int32) error {
	var color, depth, fbo uint32
	g.GenTextures(1, &color)
	g.BindTexture(glTexture2D, color)
	g.TexImage2D(glTexture2D, 0, glRGBA, w, h, 0, glRGBA, glUnsignedByte, nil)
	g.TexParameteri(glTexture2D, glTextureMinFilter, glLinear)
	g.GenRenderbuffers(1, &depth)
	g.BindRenderbuffer(glRenderbuffer, depth)
	g.RenderbufferStorage(glRenderbuffer, glDepthComponent16, w, h)
	g.GenFramebuffers(1, &fbo)
	g.BindFramebuffer(glFramebuffer, fbo)
	g.FramebufferTexture2D(glFramebuffer, glColorAttachment0, glTexture2D, color, 0)
	g.FramebufferRenderbuffer(glFramebuffer, glDepthAttachment, glRenderbuffer, depth)
	if st := g.CheckFramebufferStatus(glFramebuffer); st != glFramebufferDone {
		return fmt.Errorf("a framebuffer of %dx%d pixels is incomplete (%#x)", w, h, st)
	}
	return nil
}

// check returns the first error since the last check.
func (g *gles) check() error {
	if e := g.GetError(); e != 0 {
		return fmt.Errorf("OpenGL error %#x", e)
	}
	return nil
}

// Package virgltest writes virgl command streams by hand, for tests: what Mesa's
// driver in a guest sends with SUBMIT_3D. Numbers are those of virgl_hw.h and
// virgl_protocol.h of virglrenderer.
package virgltest

import (
	"encoding/binary"
	"math"
)

// Commands.
const (
	cmdCreateObject   = 1
	cmdSetFramebuffer = 5
	cmdClear          = 7
)

// Kinds of objects.
const (
	ObjectShader  = 4
	ObjectSurface = 8
)

// Resources.
const (
	TargetTexture2D  = 2
	FormatBGRA       = 1 // VIRGL_FORMAT_B8G8R8A8_UNORM
	BindRenderTarget = 1 << 1
)

const clearColor0 = 1 << 2

// Stream is a row of commands.
type Stream struct{ b []byte }

// Bytes returns the commands.
func (s *Stream) Bytes() []byte { return s.b }

// Command appends a command with its object kind and words.
func (s *Stream) Command(cmd, object uint32, words ...uint32) {
	s.b = binary.LittleEndian.AppendUint32(s.b, cmd|object<<8|uint32(len(words))<<16)
	for _, w := range words {
		s.b = binary.LittleEndian.AppendUint32(s.b, w)
	}
}

// Surface makes a surface of a resource.
func (s *Stream) Surface(handle, resource, format uint32) {
	s.Command(cmdCreateObject, ObjectSurface, handle, resource, format, 0, 0)
}

// Framebuffer draws to a surface from here on.
func (s *Stream) Framebuffer(surface uint32) { s.Command(cmdSetFramebuffer, 0, 1, 0, surface) }

// Clear fills it with a color.
func (s *Stream) Clear(r, g, b, a float32) {
	f := math.Float32bits
	s.Command(cmdClear, 0, clearColor0, f(r), f(g), f(b), f(a), 0, 0, 0)
}

// Shader makes a fragment shader from TGSI text.
func (s *Stream) Shader(handle uint32, text string) {
	b := append([]byte(text), 0)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	const fragment = 1
	words := []uint32{handle, fragment, uint32(len(b)), 300, 0}
	for ; len(b) > 0; b = b[4:] {
		words = append(words, binary.LittleEndian.Uint32(b))
	}
	s.Command(cmdCreateObject, ObjectShader, words...)
}

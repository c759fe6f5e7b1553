//go:build !goexperiment.simd || !amd64

package texture

// Place is for processors with vectors: Make plans nothing here.
func (p *Plan) Place(_, _, _ *[32]uint32) { panic("texture: a plan without vectors") }

// Parts is for processors with vectors.
func (p *Plan) Parts() { panic("texture: a plan without vectors") }

// Result is for processors with vectors.
func (p *Plan) Result(_ int, _ *[32]uint32) { panic("texture: a plan without vectors") }

package texture

import "math"

// Plan is how 32 fetches at once from a texture go, for processors with vectors: what depends on the
// descriptor alone is found once. A fetch goes in three steps: Place resolves the coordinates, the
// engine fills in Words from the memory that holds the texels, and Result makes a channel.
// All of it gives the bits that Unit gives.
type Plan struct {
	// Bytes is what the texels span from Base on: offsets are below it.
	Bytes uint64
	// Texel is the size of a texel in bytes.
	Texel  uint64
	d      *Descriptor
	axes   [2]planAxis
	border [4]uint32 // the words of a texel of the border

	// Of the last fetch. Lanes that do not fetch have places too.

	// Single reports that each lane takes one texel, which lies at Column[0] and Row[0].
	Single bool
	// Column and Row are the offsets, in bytes, of the two columns and the two rows in which the texels
	// of a lane lie. The sum of one of each is where a texel lies, counted from Base.
	Column, Row [2][32]uint32
	// Words are the texels: left and right of the upper row, then of the lower. A texel below 4 bytes
	// is one word.
	Words [4][4][32]uint32

	weight  [2][32]uint32 // as in Spans
	outside [2][2]uint32  // lanes whose Column or Row is the border's
	part    [4][32]uint32 // the weights of the texels
}

// planAxis is how one axis is resolved.
type planAxis struct {
	axis
	low, high float32 // between which coordinates count
	before    float32 // what they are multiplied by before they are cut off; 0: they are not
	after     float64 // and after
	stride    uint32  // bytes from one index to the next
}

// planVectors reports that the processor has what Place and Result need.
var planVectors bool

// maxPlanned bounds the offsets of texels, so that they are positive numbers of 32 bits.
const maxPlanned = 1 << 31

// Make plans fetches from d, which stays unchanged while the plan is used, and reports whether
// it can: where not, Unit fetches. Precondition: Check accepts d.
func (p *Plan) Make(d *Descriptor) bool {
	if !planVectors || d.Levels != 0 || d.Surface || d.Shape != Shape1D && d.Shape != Shape2D || !d.planned() || d.span() > maxPlanned {
		return false
	}
	if d.Shape == Shape1D && !d.Layered && d.Address[1] == Border {
		return false // its filter looks beside the row
	}
	p.d, p.Bytes, p.Texel = d, d.span(), d.texelBytes()
	t := d.borderTexel()
	p.border = [4]uint32{uint32(t.Lo), uint32(t.Lo >> 32), uint32(t.Hi), uint32(t.Hi >> 32)}
	p.Column, p.Row = [2][32]uint32{}, [2][32]uint32{}
	p.weight, p.outside, p.part = [2][32]uint32{}, [2][2]uint32{}, [4][32]uint32{}
	return p.planAxis(0, d.Width, p.Texel) && (d.Shape == Shape1D || p.planAxis(1, d.Height, d.Pitch))
}

// planned reports whether Result makes the channels of d.
func (d *Descriptor) planned() bool {
	switch d.Format {
	case F32, U32, S32:
		return true
	case F16:
		return false
	case U8:
		return !d.SRGB
	}
	return !d.Floats
}

// planAxis plans an axis whose texels lie so many bytes apart.
func (p *Plan) planAxis(n int, size uint32, stride uint64) bool {
	a := &p.axes[n]
	*a = planAxis{axis: p.d.axis(n, size), stride: uint32(stride), after: 1}
	a.low, a.high = 0, float32(size)
	if !a.normalized && a.mode != Border {
		a.mode = Clamp
	}
	if a.mode == Border {
		a.low, a.high = -2, float32(size)+2
	}
	if a.normalized {
		a.low, a.high = 0, 1
		if a.mode == Border {
			a.low, a.high = -4, 4 // further than place looks, whatever the size
		}
		a.before = float32(uint64(1) << a.fixedBits())
		a.after = float64(size) / float64(a.before)
	}
	if p.d.Linear {
		a.after *= one
	}
	// With more bits a coordinate modulo 2 is no whole number of a float32.
	return a.mode == Clamp || a.mode == Border || a.before <= 1<<23
}

// Wide reports whether each channel is a word of its own.
func (p *Plan) Wide() bool { return p.d.Format.Size() == 4 }

// Reach returns between which offsets all texels of the last fetch lie.
func (p *Plan) Reach() (low, high uint64) {
	left, right := uint32(maxPlanned), uint32(0)
	upper, lower := left, right
	for i := range 32 {
		x, y := p.Column[0][i], p.Row[0][i]
		left, right, upper, lower = min(left, x), max(right, x), min(upper, y), max(lower, y)
		if !p.Single {
			x, y = p.Column[1][i], p.Row[1][i]
			left, right, upper, lower = min(left, x), max(right, x), min(upper, y), max(lower, y)
		}
	}
	return uint64(left) + uint64(upper), uint64(right) + uint64(lower) + p.Texel
}

// quotient are the two numbers which x is multiplied by for x/(1<<bits-1): the second is the
// power of two, so that the sum is rounded once.
func quotient(bits int) (rest, power float32) {
	whole := math.Ldexp(1, bits)
	return float32(1/(whole-1) - 1/whole), float32(1 / whole)
}

package suite

import "math"

var (
	attentionBench = Bench{
		Name: "attention", Description: "attention of a transformer, in one kernel", Input: "8 heads, 512 places of 32 numbers", Fixed: true,
		Run: runAttention,
	}
	layernormBench = Bench{
		Name: "layernorm", Description: "rows made to have mean 0 and variance 1", Input: "2,048 rows of 1,024 numbers", Fixed: true,
		Run: runLayernorm,
	}
	softmaxBench = Bench{
		Name: "softmax", Description: "the softmax of rows", Input: "2,048 rows of 1,024 numbers", Fixed: true,
		Run: runSoftmax,
	}
)

// Of layernorm and softmax.
const (
	layerRows  = 2048
	layerWidth = 1024
)

func runAttention(e *Env) error {
	const heads, count, width, block = 8, 512, 32, 64
	const size = heads * count * width
	r := newRandom(34)
	query, keys, value := unitFloats(r, size, -2, 4), unitFloats(r, size, -2, 4), unitFloats(r, size, -2, 4)
	want, got := make([]float64, size), make([]float32, size)
	scale := 1 / math.Sqrt(width)
	score := make([]float64, count)
	for head := 0; head < size; head += count * width {
		for i := range count {
			sum := 0.0
			for j := range score { // keys has a row for each number of a place
				dot := 0.0
				for d := range width {
					dot += float64(query[head+i*width+d]) * float64(keys[head+d*count+j])
				}
				score[j] = math.Exp(dot * scale)
				sum += score[j]
			}
			out := want[head+i*width:][:width]
			for j, w := range score {
				for d := range out {
					out[d] += w / sum * float64(value[head+j*width+d])
				}
			}
		}
	}

	s := e.begin("attention", 4*size, 4*size, 4*size, 4*size)
	for i, b := range [][]float32{query, keys, value} {
		s.htod(s.mem[i], bytesOf(b))
	}
	s.launch("attention", dim{count / block, heads}, dim{block, 1}, s.mem[0], s.mem[1], s.mem[2], s.mem[3],
		uint32(count), float32(scale*math.Log2E))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[3])
	if err := s.end(); err != nil {
		return err
	}
	return checkClose("out", got, want, 1e-4) // averages of values up to 2
}

func runLayernorm(e *Env) error {
	r := newRandom(35)
	in := unitFloats(r, layerRows*layerWidth, -3, 8)
	gain, bias := unitFloats(r, layerWidth, 0.5, 1), unitFloats(r, layerWidth, -1, 2)
	want, got := make([]float64, len(in)), make([]float32, len(in))
	for first := 0; first < len(in); first += layerWidth {
		row, mean, square := in[first:first+layerWidth], 0.0, 0.0
		for _, x := range row {
			mean += float64(x) / layerWidth
		}
		for _, x := range row {
			square += (float64(x) - mean) * (float64(x) - mean) / layerWidth
		}
		for i, x := range row {
			want[first+i] = (float64(x)-mean)/math.Sqrt(square+1e-5)*float64(gain[i]) + float64(bias[i])
		}
	}

	s := e.begin("layernorm", 4*len(in), 4*len(in), 4*layerWidth, 4*layerWidth)
	s.htod(s.mem[0], bytesOf(in))
	s.htod(s.mem[2], bytesOf(gain))
	s.htod(s.mem[3], bytesOf(bias))
	s.launch("layernorm", dim{layerRows, 1}, inRow, s.mem[0], s.mem[1], s.mem[2], s.mem[3], uint32(layerWidth))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	return checkClose("out", got, want, 1e-4) // of 4 at most
}

func runSoftmax(e *Env) error {
	in := unitFloats(newRandom(36), layerRows*layerWidth, -4, 8)
	want, got := make([]float64, len(in)), make([]float32, len(in))
	for first := 0; first < len(in); first += layerWidth {
		row, sum := in[first:first+layerWidth], 0.0
		for _, x := range row {
			sum += math.Exp(float64(x))
		}
		for i, x := range row {
			want[first+i] = math.Exp(float64(x)) / sum
		}
	}

	s := e.begin("softmax", 4*len(in), 4*len(in))
	s.htod(s.mem[0], bytesOf(in))
	s.launch("softmax", dim{layerRows, 1}, inRow, s.mem[0], s.mem[1], uint32(layerWidth))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	return checkClose("out", got, want, 1e-7) // of 0.01 at most
}

package suite

var (
	conv2dBench = Bench{
		Name: "conv2d", Description: "an image through a filter of 7 x 7", Input: "1,024 x 1,024 pixels", Fixed: true,
		Run: runConv2D,
	}
	sobelBench = Bench{
		Name: "sobel", Description: "edges of an image of bytes", Input: "2,048 x 2,048 pixels", Fixed: true,
		Run: runSobel,
	}
	transposeBench = Bench{
		Name: "transpose", Description: "a transposed matrix", Input: "2,048 x 2,048 numbers", Fixed: true,
		Run: runTranspose,
	}
)

func runConv2D(e *Env) error {
	const side, taps, block = 1024, 7, 16
	const pitch = side + taps - 1
	r := newRandom(27)
	in, weight := smallInts(r, pitch*pitch, 0, 255), smallInts(r, taps*taps, -9, 9)
	want, got := make([]float32, side*side), make([]float32, side*side)
	for y := range side {
		for v := range taps {
			for u := range taps {
				w, row := weight[v*taps+u], in[(y+v)*pitch+u:]
				for x := range side {
					want[y*side+x] += w * row[x]
				}
			}
		}
	}

	s := e.begin("conv2d", 4*len(in), 4*len(got), 4*len(weight))
	s.htod(s.mem[0], bytesOf(in))
	s.htod(s.mem[2], bytesOf(weight))
	s.launch("conv2d", dim{side / block, side / block}, dim{block, block}, s.mem[0], s.mem[1], s.mem[2], uint32(side))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("pixels", got, want)
}

func runSobel(e *Env) error {
	const side = 2048
	const pitch = side + 2
	in := make([]byte, pitch*pitch)
	r := newRandom(28)
	for i := range in {
		x, y := i%pitch, i/pitch
		in[i] = byte(r.below(32)) // noise on a chessboard
		if (x/64+y/64)%2 == 0 {
			in[i] += 100
		}
	}
	want, got := make([]byte, side*side), make([]byte, side*side)
	for y := range side {
		for x := range side {
			at := func(dx, dy int) int { return int(in[(y+dy)*pitch+x+dx]) }
			across := at(2, 0) + 2*at(2, 1) + at(2, 2) - at(0, 0) - 2*at(0, 1) - at(0, 2)
			down := at(0, 2) + 2*at(1, 2) + at(2, 2) - at(0, 0) - 2*at(1, 0) - at(2, 0)
			want[y*side+x] = byte(min(max(across, -across)+max(down, -down), 255))
		}
	}

	s := e.begin("sobel", len(in), len(got))
	s.htod(s.mem[0], in)
	s.launch("sobel", dim{side / 32, side / 8}, dim{32, 8}, s.mem[0], s.mem[1], uint32(side), uint32(side))
	s.sync()
	s.dtoh(got, s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("pixels", got, want)
}

func runTranspose(e *Env) error {
	const side, tile, rows = 2048, 32, 8
	in := uints(newRandom(29), side*side)
	want, got := make([]uint32, side*side), make([]uint32, side*side)
	for y := range side {
		for x := range side {
			want[x*side+y] = in[y*side+x]
		}
	}

	s := e.begin("transpose", 4*side*side, 4*side*side)
	s.htod(s.mem[0], bytesOf(in))
	s.launch("transpose", dim{side / tile, side / tile}, dim{tile, rows}, s.mem[0], s.mem[1], uint32(side))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("elements", got, want)
}

package suite

import (
	"math"

	"pvdrm/frontend/cuda"
)

var sradBench = Bench{
	Name:        "srad",
	Description: "speckle-reducing anisotropic diffusion of an image",
	Input:       "502 x 458 pixels, 100 iterations",
	Run:         runSrad,
}

var srad2Bench = Bench{
	Name:        "srad2",
	Description: "srad on pseudo-random input",
	Input:       "2048 x 2048 pixels, 2 iterations",
	Run:         runSrad2,
}

// Of srad.cl.
const (
	sradStrip   = 4
	sradThreads = 256
	sradParts   = 64 // blocks of srad_sum
)

// speckled is an image to be diffused: rows x cols pixels, in which the first
// regionRows x regionCols show what is only speckle.
type speckled struct {
	rows, cols             int
	regionRows, regionCols int
	iterations             int
	lambda                 float32 // the share of a step
	pixels                 []float32
}

// diffuse queues the kernels that diffuse image. It returns the buffer that holds
// the result, image or other.
func (d speckled) diffuse(s *session, image, other, coefficient, partial, scale cuda.DevicePtr) cuda.DevicePtr {
	block := dim{32, 8}
	grid := dim{
		(uint32(d.cols) + block.x - 1) / block.x,
		(uint32(d.rows) + block.y*sradStrip - 1) / (block.y * sradStrip),
	}
	rows, cols := uint32(d.rows), uint32(d.cols)
	for range d.iterations {
		s.launch("srad_sum", dim{sradParts, 1}, dim{sradThreads, 1},
			image, partial, cols, uint32(d.regionRows), uint32(d.regionCols))
		s.launch("srad_scale", dim{1, 1}, dim{sradThreads, 1},
			partial, uint32(sradParts), float32(d.regionRows*d.regionCols), scale)
		s.launch("srad_coefficient", grid, block, image, coefficient, scale, rows, cols)
		s.launch("srad_update", grid, block, image, other, coefficient, d.lambda/4, rows, cols)
		image, other = other, image
	}
	return image
}

// run extracts, diffuses and, with compress, compresses the image on the GPU;
// white is the brightness that becomes 1 before the exponential.
func (d speckled) run(e *Env, white float32, compress bool) ([]float32, error) {
	got := make([]float32, len(d.pixels))
	size := 4 * len(d.pixels)
	flat := dim{uint32(len(d.pixels)+sradThreads-1) / sradThreads, 1}

	s := e.begin("srad", size, size, size, 8*sradParts, 8)
	s.htod(s.mem[0], bytesOf(d.pixels))
	s.launch("srad_extract", flat, dim{sradThreads, 1}, s.mem[0], uint32(len(d.pixels)), 1/white)
	result := d.diffuse(s, s.mem[0], s.mem[1], s.mem[2], s.mem[3], s.mem[4])
	if compress {
		s.launch("srad_compress", flat, dim{sradThreads, 1}, result, uint32(len(d.pixels)), white)
	}
	s.sync()
	s.dtoh(bytesOf(got), result)
	return got, s.end()
}

func runSrad(e *Env) error {
	const region, cols = 502, 458 // all of the image, unless it is scaled: so sums round alike
	const white = 255
	rows := region * e.scale
	d := speckled{
		rows: rows, cols: cols, regionRows: region, regionCols: cols,
		iterations: 100, lambda: 0.5, pixels: ultrasound(newRandom(15), rows, cols),
	}
	got, err := d.run(e, white, true)
	if err != nil {
		return err
	}
	want := d.reference(white)
	for i, v := range want {
		want[i] = math.Log(v) * white
	}
	return checkClose("pixel", got, want, sradTolerance*float64(min(e.scale, 2)))
}

func runSrad2(e *Env) error {
	const side = 2048
	rows := side * e.scale
	r := newRandom(16)
	d := speckled{
		rows: rows, cols: side, regionRows: 128, regionCols: 128,
		iterations: 2, lambda: 0.5, pixels: make([]float32, rows*side),
	}
	for i := range d.pixels {
		d.pixels[i] = r.unit()
	}
	got, err := d.run(e, 1, false)
	if err != nil {
		return err
	}
	return checkClose("pixel", got, d.reference(1), srad2Tolerance)
}

// ultrasound makes an image like those of the method's field: bright bodies on a
// dark ground, of brightness 0 to 255, under noise that grows with the brightness.
func ultrasound(r *random, rows, cols int) []float32 {
	type body struct{ y, x, radius, light float32 }
	bodies := make([]body, 12)
	for i := range bodies {
		bodies[i] = body{
			y: r.unit() * float32(rows), x: r.unit() * float32(cols),
			radius: 15 + 60*r.unit(), light: 40 + 120*r.unit(),
		}
	}
	pixels := make([]float32, rows*cols)
	for i := range pixels {
		y, x := float32(i/cols), float32(i%cols)
		light := float32(30)
		for _, b := range bodies {
			if (y-b.y)*(y-b.y)+(x-b.x)*(x-b.x) < b.radius*b.radius {
				light = max(light, b.light)
			}
		}
		pixels[i] = min(255, light*(0.6+0.8*r.unit()))
	}
	return pixels
}

// reference diffuses in double precision and returns the result on the
// exponential scale. Where the kernels gather from the neighbours of a pixel, it
// works with the differences across the borders between pixels, each computed
// once: to the pixel east of i in dx[i+1], to that south of i in dy[i+cols]. Those
// at the edge of the image stay 0.
func (d speckled) reference(white float32) []float64 {
	n, cols := len(d.pixels), d.cols
	image := make([]float64, n)
	for i, v := range d.pixels {
		image[i] = math.Exp(float64(v) / float64(white))
	}
	dx, dy := make([]float64, n+1), make([]float64, n+cols)
	c := make([]float64, n)

	for range d.iterations {
		for i := cols; i < n; i++ {
			dy[i] = image[i] - image[i-cols]
		}
		for start := 0; start < n; start += cols {
			row, diff := image[start:start+cols], dx[start:start+cols]
			for x := 1; x < cols; x++ {
				diff[x] = row[x] - row[x-1]
			}
		}

		q0 := d.speckle(image)
		scale := 1 / (q0 * (1 + q0))
		for i, v := range image {
			west, east, north, south := dx[i], dx[i+1], dy[i], dy[i+cols]
			squares := west*west + east*east + north*north + south*south
			quarter := (east - west + south - north) / (4 * v)
			q := (squares/(2*v*v) - quarter*quarter) / ((1 + quarter) * (1 + quarter))
			c[i] = 1 / (1 + (q-q0)*scale)
			if c[i] < 0 {
				c[i] = 0
			} else if c[i] > 1 {
				c[i] = 1
			}
		}

		// What flows through a border goes with the coefficient of its east or south side.
		for i, v := range c {
			dx[i] *= v
			dy[i] *= v
		}
		step := float64(d.lambda) / 4
		for i := range image {
			image[i] += step * (dx[i+1] - dx[i] + dy[i+cols] - dy[i])
		}
	}
	return image
}

// speckle is the squared coefficient of variation of the region that shows only speckle.
func (d speckled) speckle(image []float64) float64 {
	var sum, squares float64
	for y := range d.regionRows {
		for _, v := range image[y*d.cols : y*d.cols+d.regionCols] {
			sum += v
			squares += v * v
		}
	}
	n := float64(d.regionRows * d.regionCols)
	mean := sum / n
	return (squares/n - mean*mean) / (mean * mean)
}

// Tolerances, absolute: of srad in steps of brightness, of srad2 on the
// exponential scale, which goes from 1 to e. An iteration rounds a pixel to 2^-24
// of its value in each of its about four last operations, and moves pixels towards
// each other, so that old errors do not grow; its coefficient, off by 10^-5 of
// itself at most where the sums for the speckle scale cancel, adds that much of
// the flow, which is soon small. 100 iterations make 4 * 100 * 2^-24 = 2.4e-5 of
// a pixel, 255 times that after the logarithm: 6e-3. Two iterations make 1e-6 and
// the coefficients' share. On scaled input the region is dimmer and flatter, and the
// sums cancel more: twice as much is allowed there. A missing neighbour or term shows from 0.1 and 1e-3.
const (
	sradTolerance  = 1e-2
	srad2Tolerance = 1e-5
)

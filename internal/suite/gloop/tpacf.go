package gloop

import (
	"fmt"
	"math"
	"sync"
)

// Sizes of tpacf; see device/tpacf.h.
const (
	tpacfBins    = 20
	tpacfTile    = 128
	tpacfPoints  = 256 // of a set, with size 1
	tpacfSets    = 5
	tpacfThreads = 128
)

// tpacfArgs is TPACF of device/tpacf.h.
type tpacfArgs struct {
	X, Y, Z, Bounds uint64
	Points, Sets    uint32
	Bins            uint64
}

// sphere is sets of points on a sphere, one after another.
type sphere struct {
	x, y, z []float32
	bounds  []float32 // cosines between the bins, descending
	points  int
	bins    [tpacfPairs][]uint64 // of each pair of sets
}

// tpacfPairs is how many pairs of sets there are: each with itself, and the first with each other one.
const tpacfPairs = 2*tpacfSets - 1

func makeSphere(points int) sphere {
	s := sphere{points: points}
	r := newRandom(31)
	for i := range points * tpacfSets {
		z := 2*float64(r.unit()) - 1
		a := 2 * math.Pi * float64(r.unit())
		if i < points { // what was observed is denser towards a pole
			z = math.Abs(z)
		}
		side := math.Sqrt(1 - z*z)
		s.x, s.y, s.z = append(s.x, float32(side*math.Cos(a))), append(s.y, float32(side*math.Sin(a))), append(s.z, float32(z))
	}
	// Bins of equal size in the logarithm of the angle, from 3 minutes of arc to 100 degrees.
	from, to := math.Log10(0.05), math.Log10(100)
	for i := range tpacfBins + 1 {
		angle := math.Pow(10, from+(to-from)*float64(i)/tpacfBins)
		s.bounds = append(s.bounds, float32(math.Cos(angle*math.Pi/180)))
	}
	var all sync.WaitGroup
	for pair := range s.bins {
		a, b := pair, pair
		if pair >= tpacfSets {
			a, b = 0, pair-tpacfSets+1
		}
		all.Go(func() { s.bins[pair] = s.histogram(a, b) })
	}
	all.Wait()
	return s
}

// histogram is that of a pair of sets. Each sum is rounded as the GPU rounds it.
func (s *sphere) histogram(a, b int) []uint64 {
	bins := make([]uint64, tpacfBins+2)
	for i := range s.points {
		from := 0
		if a == b {
			from = i + 1
		}
		p := a*s.points + i
		for q := b*s.points + from; q < (b+1)*s.points; q++ {
			c := float32(float32(s.x[p]*s.x[q])+float32(s.y[p]*s.y[q])) + float32(s.z[p]*s.z[q])
			bin := 0
			for bin <= tpacfBins && c <= s.bounds[bin] {
				bin++
			}
			bins[bin]++
		}
	}
	return bins
}

var tpacfSpheres memo[sphere]

func prepareTPACF(j *job) (task, error) {
	points := tpacfPoints * int(math.Sqrt(float64(j.Size)))
	const pairs = tpacfPairs
	s := tpacfSpheres.get(points, func() sphere { return makeSphere(points) })
	m, err := j.uploads(s.x, s.y, s.z, s.bounds, pairs*(tpacfBins+2)*8)
	if err != nil {
		return task{}, err
	}
	loop := loopLaunch{kernel: "tpacf", logical: pairs, threads: tpacfThreads}
	if err := j.ready(loop); err != nil {
		return task{}, err
	}
	args := bytesOf(tpacfArgs{X: uint64(m[0]), Y: uint64(m[1]), Z: uint64(m[2]), Bounds: uint64(m[3]),
		Points: uint32(points), Sets: tpacfSets, Bins: uint64(m[4])})
	steps := (points + tpacfThreads - 1) / tpacfThreads * ((points + tpacfTile - 1) / tpacfTile)
	work := func() error {
		if err := j.clear(m[4], 0, pairs*(tpacfBins+2)*8); err != nil {
			return err
		}
		switch {
		case j.Version.loops():
			return j.loop(loop, args)
		case j.Version == Split:
			for i := range steps {
				if err := j.step("tpacf", pairs, tpacfThreads, args, uint32(i), uint32(i+1)); err != nil {
					return err
				}
			}
			return nil
		}
		if err := j.launch("tpacf", pairs, tpacfThreads, args, uint32(0), uint32(steps)); err != nil {
			return err
		}
		return j.sync()
	}
	check := func() error {
		got := make([]uint64, pairs*(tpacfBins+2))
		if err := j.read(got, m[4]); err != nil {
			return err
		}
		for pair := range pairs {
			for bin, want := range s.bins[pair] {
				if x := got[pair*(tpacfBins+2)+bin]; x != want {
					return fmt.Errorf("pair %d of sets: bin %d has %d pairs instead of %d", pair, bin, x, want)
				}
			}
		}
		return nil
	}
	return task{work: work, check: check}, nil
}

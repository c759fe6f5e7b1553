package suite

import (
	"fmt"
	"math"
	"slices"
)

var nnBench = Bench{
	Name:        "nn",
	Description: "the nearest neighbours of a point",
	Input:       "42,764 places, 5 neighbours of (30, 90)",
	Run:         runNN,
}

const (
	nnPlaces     = 42764
	nnNeighbours = 5
	nnLatitude   = 30
	nnLongitude  = 90
	nnBlock      = 256
)

func runNN(e *Env) error {
	r := newRandom(11)
	count := nnPlaces * e.scale
	places := make([]float32, 2*count) // latitude and longitude in turn, in tenths of a degree
	for i := 0; i < len(places); i += 2 {
		places[i] = float32(r.between(-900, 900)) / 10
		places[i+1] = float32(r.between(0, 3599)) / 10
	}
	distance := make([]float32, count)

	s := e.begin("nn", 8*count, 4*count)
	s.htod(s.mem[0], bytesOf(places))
	s.launch("nn", dim{uint32(count+nnBlock-1) / nnBlock, 1}, dim{nnBlock, 1},
		s.mem[0], s.mem[1], uint32(count), float32(nnLatitude), float32(nnLongitude))
	s.sync()
	s.dtoh(bytesOf(distance), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	return checkNN(places, distance)
}

// nnTolerance bounds the relative error of a distance. In units of 2^-24: each
// difference is off by at most 1, so each square by 2 + 1 and the sum of both by
// 3 + 1; the root halves that and adds 1, which makes 3.
const nnTolerance = 3.0 / (1 << 24)

// checkNN checks all distances, and that the places nearest by them are the
// nearest indeed: no other place is nearer than one of them.
func checkNN(places, distance []float32) error {
	want := make([]float64, len(distance))
	for i := range want {
		want[i] = math.Hypot(float64(places[2*i])-nnLatitude, float64(places[2*i+1])-nnLongitude)
		if got := float64(distance[i]); !(math.Abs(got-want[i]) <= nnTolerance*want[i]) {
			return fmt.Errorf("distance[%d] is %v, want %v", i, got, want[i])
		}
	}

	picked := nearest(distance, nnNeighbours)
	farthest := 0.0
	for _, i := range picked {
		farthest = max(farthest, want[i])
	}
	for i, d := range want {
		if d < farthest*(1-2*nnTolerance) && !slices.Contains(picked, i) {
			return fmt.Errorf("place %d at distance %v is nearer than some of the %d nearest, %v", i, d, len(picked), picked)
		}
	}
	return nil
}

// nearest returns the indices of the k smallest distances, nearest first.
func nearest(distance []float32, k int) []int {
	var picked []int
	for i, d := range distance {
		at := len(picked)
		for at > 0 && d < distance[picked[at-1]] {
			at--
		}
		if at < k {
			picked = slices.Insert(picked, at, i)
			picked = picked[:min(k, len(picked))]
		}
	}
	return picked
}

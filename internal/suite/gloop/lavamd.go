package gloop

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	lavaFall  = float32(0.5)
	lavaLarge = 64 // the size from which boxes have as many particles as they can
)

// particle is Particle of device/lavamd.h.
type particle struct{ X, Y, Z, Q float32 }

// lavaArgs is Lava of device/lavamd.h.
type lavaArgs struct {
	Particles, Out uint64
	Side, InBox    uint32
	Fall           float32
	_              uint32
}

// cube is particles in boxes of a cube with a side of so many.
type cube struct {
	side, inBox int
	particles   []particle
	bytes       []byte             // of particles
	forces      map[int][4]float64 // on those that are checked
}

// makeCube makes one of a size. The work is proportional to it.
func makeCube(size int) cube {
	c := cube{inBox: 32, side: int(math.Round(2.6 * math.Cbrt(float64(size)))), forces: map[int][4]float64{}}
	if size >= lavaLarge {
		c.inBox, c.side = 128, int(math.Round(1.03*math.Cbrt(float64(size))))
	}
	side := c.side
	r := newRandom(41)
	for box := range side * side * side {
		for range c.inBox {
			c.particles = append(c.particles, particle{X: float32(box%side) + r.unit(), Y: float32(box/side%side) + r.unit(),
				Z: float32(box/side/side) + r.unit(), Q: r.unit()})
		}
	}
	c.bytes = bytesOf(c.particles)
	checked := min(max(lavaCompared/len(c.particles), lavaFew), lavaChecked)
	for i := 0; i < len(c.particles); i += (len(c.particles) + checked - 1) / checked {
		c.forces[i] = c.force(i)
	}
	return c
}

// force computes what acts on a particle, by asking each particle of the cube whether its box
// touches.
func (c *cube) force(i int) (sum [4]float64) {
	near := func(a, b int) bool { return a-b <= 1 && b-a <= 1 }
	place := func(i int) (x, y, z int) {
		box := i / c.inBox
		return box % c.side, box / c.side % c.side, box / c.side / c.side
	}
	x0, y0, z0 := place(i)
	me := c.particles[i]
	for k, o := range c.particles {
		if x1, y1, z1 := place(k); !near(x0, x1) || !near(y0, y1) || !near(z0, z1) {
			continue
		}
		dx, dy, dz := float64(me.X)-float64(o.X), float64(me.Y)-float64(o.Y), float64(me.Z)-float64(o.Z)
		v := math.Exp(-float64(lavaFall)*(dx*dx+dy*dy+dz*dz)) * float64(o.Q)
		f := 2 * float64(lavaFall) * v
		for k, add := range [4]float64{f * dx, f * dy, f * dz, v} {
			sum[k] += add
		}
	}
	return sum
}

// lavaChecked is how many particles are compared with the reference at most, lavaFew how many at least; in between
// it takes about lavaCompared pairs.
const (
	lavaChecked  = 500
	lavaFew      = 20
	lavaCompared = 1 << 27
)

// lavaTolerance is of sums of up to 27 terms below 1 for each particle of a box, each off by some 2^-22 by the
// GPU's exponential and by rounding.
const lavaTolerance = 27 * 0x1p-21

var lavaCubes memo[cube]

func prepareLavaMD(j *job) (task, error) {
	c := lavaCubes.get(j.Size, func() cube { return makeCube(j.Size) })
	boxes := c.side * c.side * c.side
	m, err := j.uploads(c.bytes, 16*len(c.particles))
	if err != nil {
		return task{}, err
	}
	loop := loopLaunch{kernel: "lavamd", logical: boxes, threads: c.inBox}
	if err := j.ready(loop); err != nil {
		return task{}, err
	}
	args := bytesOf(lavaArgs{Particles: uint64(m[0]), Out: uint64(m[1]), Side: uint32(c.side), InBox: uint32(c.inBox), Fall: lavaFall})
	work := func() error {
		if err := j.clear(m[1], 0, 16*len(c.particles)); err != nil {
			return err
		}
		switch {
		case j.Version.loops():
			return j.loop(loop, args)
		case j.Version == Split:
			resident, err := j.resident()
			for first := 0; err == nil && first < boxes; first += resident {
				err = j.step("lavamd", min(resident, boxes-first), c.inBox, args, uint32(first))
			}
			return err
		}
		if err := j.launch("lavamd", boxes, c.inBox, args, uint32(0)); err != nil {
			return err
		}
		return j.sync()
	}
	check := func() error {
		got, err := j.readBytes(m[1], 16*len(c.particles))
		if err != nil {
			return err
		}
		for i, want := range c.forces {
			for k, w := range want {
				d := float64(math.Float32frombits(binary.LittleEndian.Uint32(got[16*i+4*k:]))) - w
				if !(math.Abs(d) <= lavaTolerance*float64(c.inBox)) {
					return fmt.Errorf("particle %d, component %d: off by %g", i, k, d)
				}
			}
		}
		return nil
	}
	return task{work: work, check: check}, nil
}

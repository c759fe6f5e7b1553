package gloop

import (
	"fmt"
	"math"
)

const (
	lavaInBox = 32 // particles
	lavaFall  = float32(0.5)
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
	side      int
	particles []particle
}

func makeCube(side int) *cube {
	c := &cube{side: side}
	r := newRandom(41)
	for box := range side * side * side {
		for range lavaInBox {
			c.particles = append(c.particles, particle{X: float32(box%side) + r.unit(), Y: float32(box/side%side) + r.unit(),
				Z: float32(box/side/side) + r.unit(), Q: r.unit()})
		}
	}
	return c
}

// force computes what acts on a particle, by asking each particle of the cube whether its box
// touches.
func (c *cube) force(i int) (x, y, z, q float64) {
	near := func(a, b int) bool { return a-b <= 1 && b-a <= 1 }
	place := func(i int) (x, y, z int) {
		box := i / lavaInBox
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
		x, y, z, q = x+f*dx, y+f*dy, z+f*dz, q+v
	}
	return x, y, z, q
}

// lavaChecked is how many particles are compared with the reference at most.
const lavaChecked = 500

// lavaTolerance is of sums of up to 27*32 terms below 1, each off by some 2^-22 by the GPU's
// exponential and by rounding.
const lavaTolerance = 27 * lavaInBox * 0x1p-21

func prepareLavaMD(j *job) (task, error) {
	side := int(math.Round(2.6 * math.Cbrt(float64(j.Size))))
	boxes := side * side * side
	c := makeCube(side)
	m, err := j.uploads(c.particles, 16*len(c.particles))
	if err != nil {
		return task{}, err
	}
	args := bytesOf(lavaArgs{Particles: uint64(m[0]), Out: uint64(m[1]), Side: uint32(side), InBox: lavaInBox, Fall: lavaFall})
	work := func() error {
		if err := j.clear(m[1], 0, 16*len(c.particles)); err != nil {
			return err
		}
		switch {
		case j.Version.loops():
			return j.loop(loopLaunch{kernel: "lavamd", logical: boxes, threads: lavaInBox}, args)
		case j.Version == Split:
			resident, err := j.resident()
			for first := 0; err == nil && first < boxes; first += resident {
				err = j.step("lavamd", min(resident, boxes-first), lavaInBox, args, uint32(first))
			}
			return err
		}
		if err := j.launch("lavamd", boxes, lavaInBox, args, uint32(0)); err != nil {
			return err
		}
		return j.sync()
	}
	check := func() error {
		got := make([]particle, len(c.particles))
		if err := j.read(got, m[1]); err != nil {
			return err
		}
		for i := 0; i < len(got); i += (len(got) + lavaChecked - 1) / lavaChecked {
			x, y, z, q := c.force(i)
			for k, d := range [4]float64{float64(got[i].X) - x, float64(got[i].Y) - y, float64(got[i].Z) - z, float64(got[i].Q) - q} {
				if !(math.Abs(d) <= lavaTolerance) {
					return fmt.Errorf("particle %d, component %d: off by %g", i, k, d)
				}
			}
		}
		return nil
	}
	return task{work: work, check: check}, nil
}

// Package division has the tasks of `pvdrm bench division`: single long kernels of many blocks, those
// of the paper on thread division. Their results are checked against the processor's.
package division

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"pvdrm/frontend/cuda"
)

//go:embed kernels.ptx
var kernels []byte

// Most of each size, which bounds what a task takes of memory.
const (
	maxSide    = 16384
	maxOptions = 64 << 20
	maxNumbers = 1 << 30
)

// Verified is what `gdev division` prints when its result is right.
const Verified = "verified"

// ErrTask is the error of a name that is no task.
var ErrTask = errors.New("no such task")

// task is one long kernel.
type task struct {
	kernel string
	n      int // side of a matrix or an image, a multiple of tile; options; or numbers that each thread draws
}

// tile is the side of a block of threads.
const tile = 16

// parse reads a task's name: product:N or sobel:N for squares of side N, binomial:N for N options, or block:N for one
// block whose threads draw N numbers each.
func parse(name string) (t task, err error) {
	kernel, size, _ := strings.Cut(name, ":")
	n, err := strconv.Atoi(size)
	most, unit := 0, 1
	switch kernel {
	case "product", "sobel":
		most, unit = maxSide, tile
	case "binomial":
		most = maxOptions
	case "block":
		most = maxNumbers
	}
	switch {
	case most == 0:
		return t, fmt.Errorf("%w: %q; choose product:SIDE, sobel:SIDE, binomial:OPTIONS or block:NUMBERS", ErrTask, name)
	case err != nil || n < unit || n > most || n%unit != 0:
		return t, fmt.Errorf("%w: %q; choose a multiple of %d up to %d", ErrTask, name, unit, most)
	}
	return task{kernel, n}, nil
}

// Parameters of the binomial trees: factor of a step, its chance and the discount.
const (
	steps    = 127
	up       = float32(1.01)
	chance   = float32(0.5)
	discount = float32(0.9999)
)

// input is the value of an element of the input.
func input(i int) float32 { return float32(i*7919%1009) / 1009 }

// Run prepares a task and runs it once, to have it compiled and warm. Then it calls ready, and runs
// the task again each time when next reports true; done gets the time from then until it has ended.
func Run(drv *cuda.Driver, name string, ready func(), next func() bool, done func(time.Duration)) (err error) {
	t, err := parse(name)
	if err != nil {
		return err
	}
	dev, err := drv.Device(0)
	if err != nil {
		return err
	}
	ctx, err := dev.CreateContext()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ctx.Destroy()) }()
	launch, check, err := t.prepare(ctx)
	if err != nil {
		return err
	}
	run := func() error { return errors.Join(launch(), ctx.Synchronize()) }
	if err := run(); err != nil {
		return err
	}
	ready()
	for next() {
		began := time.Now()
		if err := run(); err != nil {
			return err
		}
		done(time.Since(began))
	}
	return check()
}

// prepare allocates what a task needs. launch queues its kernel; check compares some of its results
// with the processor's.
func (t task) prepare(ctx *cuda.Context) (launch, check func() error, err error) {
	m, err := ctx.LoadModule("division.ptx", kernels)
	if err != nil {
		return nil, nil, err
	}
	f, err := m.Function(t.kernel)
	if err != nil {
		return nil, nil, err
	}
	size, cfg := t.shape()
	var in, out cuda.DevicePtr
	for _, p := range []*cuda.DevicePtr{&in, &out} {
		if *p, err = ctx.MemAlloc(4 * uint64(size)); err != nil {
			return nil, nil, err
		}
	}
	b := make([]byte, 4*size)
	for i := range size {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(t.value(i)))
	}
	if err := ctx.MemcpyHtoD(in, b); err != nil {
		return nil, nil, err
	}
	args := map[string][]any{"product": {in, in, out, uint32(t.n)}, "sobel": {in, out, uint32(t.n)}, "binomial": {in, out, up, chance, discount},
		"block": {out, uint32(t.n)}}[t.kernel]
	launch = func() error { return f.Launch(cfg, args...) }
	return launch, func() error {
		if err := ctx.MemcpyDtoH(b, out); err != nil {
			return err
		}
		return t.verify(b, size)
	}, nil
}

// blockThreads are those of the one block of block:N.
const blockThreads = 128

// shape returns how many elements a task's result has, and how its kernel is launched.
func (t task) shape() (size int, cfg cuda.LaunchConfig) {
	switch t.kernel {
	case "binomial":
		return t.n, cuda.LaunchConfig{Grid: [3]uint32{uint32(t.n), 1, 1}, Block: [3]uint32{steps + 1, 1, 1}}
	case "block":
		return blockThreads, cuda.LaunchConfig{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{blockThreads, 1, 1}}
	}
	side := uint32(t.n / tile)
	return t.n * t.n, cuda.LaunchConfig{Grid: [3]uint32{side, side, 1}, Block: [3]uint32{tile, tile, 1}}
}

// value is an element of the task's input.
func (t task) value(i int) float32 {
	if t.kernel == "binomial" {
		return 0.5 + input(i)
	}
	return input(i)
}

// verify compares some elements of the result, the last among them.
func (t task) verify(b []byte, size int) error {
	const samples = 64
	for s := range samples {
		i := size - 1 - s*(size/samples)
		got := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if want := t.expected(i); !(math.Abs(float64(got)-want) <= 1e-3*max(math.Abs(want), 1)) {
			return fmt.Errorf("%s:%d: element %d of the result is %g instead of %g", t.kernel, t.n, i, got, want)
		}
	}
	return nil
}

// drawn computes the last number that a thread draws.
func (t task) drawn(thread int) float64 {
	x := uint32(thread)
	for range t.n {
		x = x*1664525 + 1013904223 + x>>16
	}
	return float64(x >> 8)
}

// expected computes an element of the result.
func (t task) expected(i int) float64 {
	at := func(y, x int) float64 { return float64(input(y*t.n + x)) }
	y, x := i/t.n, i%t.n
	switch t.kernel {
	case "block":
		return t.drawn(i)
	case "product":
		sum := 0.0
		for k := range t.n {
			sum += at(y, k) * at(k, x)
		}
		return sum
	case "sobel":
		if x == 0 || y == 0 || x == t.n-1 || y == t.n-1 {
			return 0
		}
		gx := at(y-1, x+1) - at(y-1, x-1) + 2*(at(y, x+1)-at(y, x-1)) + at(y+1, x+1) - at(y+1, x-1)
		gy := at(y+1, x-1) - at(y-1, x-1) + 2*(at(y+1, x)-at(y-1, x)) + at(y+1, x+1) - at(y-1, x+1)
		return math.Abs(gx) + math.Abs(gy)
	}
	var v [steps + 1]float64
	for k := range v {
		v[k] = max(float64(t.value(i))*math.Pow(float64(up), float64(2*k-steps))-1, 0)
	}
	for n := steps; n > 0; n-- {
		for k := range n {
			v[k] = float64(discount) * (float64(chance)*v[k+1] + float64(1-chance)*v[k])
		}
	}
	return v[0]
}

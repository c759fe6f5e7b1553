package suite

import "math"

var (
	blackScholesBench = Bench{
		Name: "blackscholes", Description: "prices of options by the formula", Input: "1,048,576 options", Fixed: true,
		Run: runBlackScholes,
	}
	binomialBench = Bench{
		Name: "binomial", Description: "prices of options by a tree", Input: "256 options, 512 steps", Fixed: true,
		Run: runBinomial,
	}
)

// Of both markets.
const (
	interest   = 0.02
	volatility = 0.3
)

func runBlackScholes(e *Env) error {
	const count = 1 << 20
	r := newRandom(32)
	price, strike, years := unitFloats(r, count, 20, 10), unitFloats(r, count, 15, 10), unitFloats(r, count, 0.25, 4)
	want := make([]float64, 2*count)
	normal := func(d float64) float64 { return math.Erfc(-d/math.Sqrt2) / 2 }
	for i := range count {
		s, x, t := float64(price[i]), float64(strike[i]), float64(years[i])
		d1 := (math.Log(s/x) + (interest+volatility*volatility/2)*t) / (volatility * math.Sqrt(t))
		d2 := d1 - volatility*math.Sqrt(t)
		want[i] = s*normal(d1) - x*math.Exp(-interest*t)*normal(d2)
		want[count+i] = x*math.Exp(-interest*t)*normal(-d2) - s*normal(-d1)
	}
	got := make([]float32, 2*count) // calls, then puts

	s := e.begin("blackscholes", 4*count, 4*count, 4*count, 4*len(got))
	for i, b := range [][]float32{price, strike, years} {
		s.htod(s.mem[i], bytesOf(b))
	}
	s.launch("blackscholes", over(count), inRow, s.mem[0], s.mem[1], s.mem[2], s.mem[3], s.mem[3]+4*count,
		uint32(count), float32(interest), float32(volatility))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[3])
	if err := s.end(); err != nil {
		return err
	}
	return checkClose("prices", got, want, 1e-4) // of 30 at most; float32 keeps 2^-24 of that in each step
}

func runBinomial(e *Env) error {
	const count, steps, years = 256, 512, 1.0
	r := newRandom(33)
	price, strike := unitFloats(r, count, 20, 10), unitFloats(r, count, 5, 15)
	dt := years / float64(steps)
	up := volatility * math.Sqrt(dt) * math.Log2E
	p := (math.Exp(interest*dt) - math.Exp2(-up)) / (math.Exp2(up) - math.Exp2(-up))
	rise, fall := p*math.Exp(-interest*dt), (1-p)*math.Exp(-interest*dt)
	want, got := make([]float64, count), make([]float32, count)
	value := make([]float64, steps+1)
	for i := range want {
		for k := range value {
			value[k] = max(float64(price[i])*math.Exp2(up*float64(2*k-steps))-float64(strike[i]), 0)
		}
		for step := steps; step > 0; step-- {
			for k := range step {
				value[k] = rise*value[k+1] + fall*value[k]
			}
		}
		want[i] = value[0]
	}

	s := e.begin("binomial", 4*count, 4*count, 4*count)
	s.htod(s.mem[0], bytesOf(price))
	s.htod(s.mem[1], bytesOf(strike))
	s.launch("binomial", dim{count, 1}, inRow, s.mem[0], s.mem[1], s.mem[2], float32(up), float32(rise), float32(fall))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[2])
	if err := s.end(); err != nil {
		return err
	}
	return checkClose("prices", got, want, 5e-3) // the probabilities are rounded, 512 steps in a row
}

package suite

var hsBench = Bench{
	Name:        "hs",
	Description: "hotspot: heat flow through a chip",
	Input:       "512 x 512 cells, 60 time steps",
	Run:         runHotspot,
}

const (
	hsSide  = 512
	hsSteps = 60
	hsPatch = 4 // cells in each direction that one thread of hs.cl makes
)

// heat are the coefficients of one time step: the step's length divided by a
// cell's heat capacity, and by that and the thermal resistance to the neighbours
// in x and y and to the air.
type heat struct{ power, x, y, air, airTemperature float32 }

// chipHeat derives the coefficients for a chip of side x side cells from its
// size and material, as the HotSpot thermal model does.
func chipHeat(side int) heat {
	const (
		edge         = 0.016  // of the chip, metres
		thickness    = 0.0005 // metres
		conductivity = 100.0  // of silicon, W/(m K)
		volumeHeat   = 1.75e6 // of silicon, J/(m^3 K)
		fitted       = 0.5    // share of the capacity that counts in a lumped model
		maxPower     = 3e6    // W/m^2, for the longest stable step
		precision    = 0.001  // K in a step at most
		air          = 80.0
	)
	cell := edge / float64(side)
	capacity := fitted * volumeHeat * thickness * cell * cell
	step := precision * fitted * volumeHeat * thickness / maxPower
	sideways := 1 / (2 * conductivity * thickness) // cells are square: the same in x and y
	upwards := thickness / (conductivity * cell * cell)
	k := step / capacity
	return heat{
		power: float32(k), x: float32(k / sideways), y: float32(k / sideways), air: float32(k / upwards),
		airTemperature: air,
	}
}

func runHotspot(e *Env) error {
	r := newRandom(13)
	temperature := make([]float32, hsSide*hsSide) // K
	power := make([]float32, hsSide*hsSide)       // W
	for i := range temperature {
		temperature[i] = 320 + 20*r.unit()
		power[i] = 0.1 * r.unit()
	}
	steps := hsSteps * e.scale
	h := chipHeat(hsSide)
	got := make([]float32, len(temperature))

	size := 4 * len(temperature)
	s := e.begin("hs", size, size, size)
	from, to, watts := s.mem[0], s.mem[1], s.mem[2]
	s.htod(from, bytesOf(temperature))
	s.htod(watts, bytesOf(power))
	block := dim{32, 4}
	grid := dim{hsSide / hsPatch / block.x, hsSide / hsPatch / block.y}
	for range steps {
		s.launch("hs_step", grid, block, from, watts, to, uint32(hsSide), uint32(hsSide),
			h.power, h.x, h.y, h.air, h.airTemperature)
		from, to = to, from
	}
	s.sync()
	s.dtoh(bytesOf(got), from)
	if err := s.end(); err != nil {
		return err
	}
	return checkClose("temperature", got, h.flow(temperature, power, hsSide, steps), hsTolerance*float64(e.scale))
}

// hsTolerance is in K. A cell's temperature, below 512, is rounded at most 4
// times in a step, by 2^-16 at most; a step of diffusion averages and so makes
// no error grow. So 60 steps are off by at most 60 * 4 * 2^-16 = 4e-3. The smallest
// effect of a whole run, that of the air, is 1 K. More steps have as much more of both.
const hsTolerance = 4e-3

// flow is the temperature after some steps. Unlike the kernel it goes from
// border to border between two cells, and lets heat flow through each once.
func (h heat) flow(temperature, power []float32, side, steps int) []float64 {
	now := make([]float64, len(temperature))
	for i, t := range temperature {
		now[i] = float64(t)
	}
	kp, kx, ky, ka, air := float64(h.power), float64(h.x), float64(h.y), float64(h.air), float64(h.airTemperature)
	gain := make([]float64, len(now))
	for range steps {
		for i, t := range now {
			gain[i] = kp*float64(power[i]) + ka*(air-t)
		}
		for y := range side {
			row := now[y*side : (y+1)*side]
			gains := gain[y*side : (y+1)*side]
			for x := 1; x < side; x++ {
				q := kx * (row[x-1] - row[x])
				gains[x] += q
				gains[x-1] -= q
			}
		}
		for i := side; i < len(now); i++ {
			q := ky * (now[i-side] - now[i])
			gain[i] += q
			gain[i-side] -= q
		}
		for i, g := range gain {
			now[i] += g
		}
	}
	return now
}

package capi

import "pvdrm/frontend/cuda"

// launchCooperativeKernel gets what cuLaunchKernel gets, but for the array extra.
func launchCooperativeKernel(c *call) error {
	f, err := c.function(0)
	if err != nil {
		return err
	}
	return c.launch(f, c.cooperativeShape(), c.u64(8), c.u64(9), 0)
}

func (c *call) cooperativeShape() cuda.LaunchConfig {
	cfg := c.launchShape()
	cfg.Cooperative = true
	return cfg
}

// checkTogether refuses a cooperative launch of more blocks than occupancy promises to run at the
// same time. What else is wrong with the launch is told elsewhere.
func (c *call) checkTogether(f *function, cfg cuda.LaunchConfig) error {
	dev := f.mod.ctx.Device()
	threads := uint64(cfg.Block[0]) * uint64(cfg.Block[1])
	if threads *= uint64(cfg.Block[2]); threads > maxBlockThreads {
		return nil
	}
	each := f.resident(dev.Multiprocessor(), int(threads), uint64(cfg.Shared))
	if each == 0 {
		return nil
	}
	multiprocessors, _ := attribute(dev, int(cuda.AttributeMultiprocessorCount))
	most, blocks := uint64(each)*uint64(multiprocessors), uint64(1)
	dims := f.clusterFor(&cfg)
	if dims != [3]uint32{} && dev.Images() {
		return nil // the driver knows how clusters lie on the GPU
	}
	if dims != [3]uint32{} { // a multiprocessor of the software GPU runs a cluster as it runs a block
		most *= min(uint64(dims[0])*uint64(dims[1])*uint64(dims[2]), dev.MaxCluster())
	}
	for _, n := range cfg.Grid {
		if blocks *= uint64(n); blocks > most { // before the next product overflows
			return c.fail(cuda.ErrCooperativeTooLarge, "kernel %s: grid %v of blocks of %d threads; %d of them run at the same time", f.Name(), cfg.Grid, threads, most)
		}
	}
	return nil
}

// maxBlockThreads is more than any device allows.
const maxBlockThreads = 1 << 20

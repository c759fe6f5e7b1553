package libcuda

import "pvdrm/frontend/cuda"

// Flags of cuGetProcAddress.
const (
	procLegacyStream    = 1
	procPerThreadStream = 2
	procFlags           = 3
)

// Values of CUdriverProcAddressQueryResult.
const (
	procFound         = 0
	procNotFound      = 1
	procNotSufficient = 2
)

// resolve finds the symbol that a program built for a CUDA version means by a
// name without its version, as cuGetProcAddress does. How tells what was wrong
// when there is none.
func resolve(name string, version int, perThread bool) (index, how int) {
	best, since, how := -1, -1, procNotFound
	for i := range symbols {
		s := &symbols[i]
		e := s.entry
		if s.Name != e.name+s.suffix || s.perThread || s.base != name && e.name != name {
			continue
		}
		if e.since > version {
			if best < 0 {
				how = procNotSufficient
			}
			continue
		}
		if e.since > since {
			best, since = i, e.since
		}
	}
	if best < 0 {
		return -1, how
	}
	if e := symbols[best].entry; perThread && e.perThread != "" {
		for i := range symbols {
			if symbols[i].entry == e && symbols[i].Name == e.name+e.perThread {
				return i, procFound
			}
		}
	}
	return best, procFound
}

func (c *call) procAddress(status int) error {
	to, err := c.out64(1)
	if err != nil {
		return err
	}
	name, err := c.text(0)
	if err != nil {
		return err
	}
	if c.u64(3)&^procFlags != 0 || c.u64(3) == procFlags {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u64(3))
	}
	perThread := c.u64(3) == procPerThreadStream || c.u64(3) == 0 && c.perThread
	i, how := resolve(name, int(c.i32(2)), perThread)
	if status >= 0 && c.u64(status) != 0 {
		st, err := c.out32(status)
		if err != nil {
			return err
		}
		if err := st.set(uint64(how)); err != nil {
			return err
		}
	}
	if i < 0 {
		if err := to.set(0); err != nil {
			return err
		}
		return c.fail(cuda.ErrNotFound, "there is no %s for CUDA %d", name, c.i32(2))
	}
	return to.set(c.lib.cfg.Symbol(i))
}

func getProcAddress(c *call) error   { return c.procAddress(-1) }
func getProcAddressV2(c *call) error { return c.procAddress(4) }

// getExportTable is what the runtime library asks for private tables with, which
// are not documented. There are none. What the runtime makes of that is an error
// that does not help, so the first time it is said what does; the log names the table.
func getExportTable(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	id, err := c.read(c.u64(1), 16)
	if err != nil {
		return err
	}
	if err := to.set(0); err != nil {
		return err
	}
	c.lib.noTables.Do(func() {
		c.lib.cfg.Logf("the program asks for private functions of NVIDIA's driver, as NVIDIA's own CUDA runtime does, and cannot run without: link it with nvcc -cudart shared, then it finds the runtime of PVDRM")
	})
	return c.fail(cuda.ErrNotFound, "private table %x", id)
}

// profiler calls have nothing to start or stop.
func nothing(*call) error { return nil }

func peerUnsupported(c *call) error {
	const peerAccessUnsupported cuda.Result = 217
	if _, err := c.context(0); err != nil {
		return err
	}
	return c.fail(peerAccessUnsupported, "there is one device")
}

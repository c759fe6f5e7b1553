package capi

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// Clusters of blocks. What is refused, and with which error, is as an H100 does it (driver 580).

// clusterRule is what the directives of a kernel say of its clusters (PTX ISA, 11.4).
type clusterRule struct {
	required [3]uint32
	explicit bool
	most     uint32 // blocks of a cluster; 0: as many as the device allows
}

const (
	portableCluster = 8 // blocks of a cluster without CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
	lastPolicy      = 2 // CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
)

// clusterRules maps the kernels that say something of their clusters to what they say.
func clusterRules(ptx []byte) map[string]clusterRule {
	if !bytes.Contains(ptx, []byte("cluster")) {
		return nil
	}
	all := map[string]clusterRule{}
	kernel, last, dimension := "", "", 3
	for {
		var word string
		if word, ptx = nextWord(ptx); word == "" {
			return all
		}
		if last == ".entry" {
			kernel, _, _ = strings.Cut(word, "(")
		}
		rule := all[kernel]
		n, err := strconv.ParseUint(strings.TrimRight(word, "{}"), 0, 32)
		switch {
		case last == ".reqnctapercluster":
			rule.required, dimension = [3]uint32{1, 1, 1}, 0
		case last == ".maxclusterrank":
			rule.most = uint32(n)
		case strings.HasPrefix(word, ".explicitcluster"):
			rule.explicit = true
		}
		if dimension < len(rule.required) && err == nil {
			rule.required[dimension] = uint32(n)
			dimension++
		} else {
			dimension = len(rule.required)
		}
		if rule != (clusterRule{}) {
			all[kernel] = rule
		}
		last = word
	}
}

// clusterOf checks the clusters of a launch, as cfg asks for them, the kernel requires them or the
// program has set them for the kernel. It returns what the device does not know: zero where the kernel
// says it, or nothing does.
func (c *call) clusterOf(f *function, cfg *cuda.LaunchConfig) ([3]uint32, error) {
	f.mu.Lock()
	set, most := f.cluster, uint64(portableCluster)
	if f.notPortable {
		most = f.mod.ctx.Device().MaxCluster()
	}
	f.mu.Unlock()
	none := [3]uint32{}
	if f.rule.required != none {
		set = f.rule.required
	}
	dims := cfg.Cluster
	switch {
	case dims == none:
		dims = set
	case set != none && set != dims:
		return none, c.fail(cuda.ErrInvalidClusterSize, "kernel %s: clusters of %v blocks, but it has clusters of %v", f.Name(), dims, set)
	}
	if dims == none {
		return none, c.sized(f, dims)
	}
	if f.rule.most > 0 {
		most = min(most, uint64(f.rule.most))
	}
	size := uint64(1)
	for i, n := range dims {
		if n == 0 || cfg.Grid[i]%n != 0 {
			return none, c.fail(cuda.ErrInvalidClusterSize, "kernel %s: clusters of %v blocks do not divide a grid of %v", f.Name(), dims, cfg.Grid)
		}
		if size *= uint64(n); size > most {
			return none, c.fail(cuda.ErrInvalidClusterSize, "kernel %s: clusters of %v blocks; at most %d are possible", f.Name(), dims, most)
		}
	}
	if dims == f.rule.required {
		return none, nil // the device knows
	}
	return dims, nil
}

// nodeCluster is clusterOf for a node, whose clusters an attribute may still name: sized refuses the
// node that has none in the end.
func (c *call) nodeCluster(f *function, cfg *cuda.LaunchConfig) ([3]uint32, error) {
	if f.clusterFor(cfg) == [3]uint32{} {
		return [3]uint32{}, nil
	}
	return c.clusterOf(f, cfg)
}

// sized refuses a launch without clusters of a kernel that needs some.
func (c *call) sized(f *function, dims [3]uint32) error {
	if f.rule.explicit && dims == [3]uint32{} {
		return c.fail(cuda.ErrInvalidClusterSize, "kernel %s: it needs a size of clusters (.explicitcluster)", f.Name())
	}
	return nil
}

// clusterFor returns the clusters that a launch of f has, unchecked: zero where it has none.
func (f *function) clusterFor(cfg *cuda.LaunchConfig) [3]uint32 {
	none := [3]uint32{}
	if cfg.Cluster != none {
		return cfg.Cluster
	}
	if f.rule.required != none {
		return f.rule.required
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cluster
}

// clusterAttribute returns an attribute of a function that speaks of clusters.
func (f *function) clusterAttribute(k int32) (v uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dims := f.cluster
	if f.rule.required != [3]uint32{} {
		dims = f.rule.required
	}
	switch k {
	case funcClusterMustBeSet:
		v = truth(f.rule.explicit)
	case funcNotPortable:
		v = truth(f.notPortable)
	case funcClusterPolicy:
		v = f.policy
	default:
		v = dims[k-funcClusterWidth]
	}
	return v
}

func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// setClusterAttribute sets such an attribute.
func (c *call) setClusterAttribute(f *function, k, v int32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case k == funcNotPortable:
		f.notPortable = v != 0
		return nil
	case v < 0 || k == funcClusterMustBeSet || k == funcClusterPolicy && v > lastPolicy:
	case k == funcClusterPolicy:
		f.policy = uint32(v)
		return nil
	case f.rule.required == [3]uint32{}:
		f.cluster[k-funcClusterWidth] = uint32(v)
		return nil
	case f.rule.required[k-funcClusterWidth] == uint32(v):
		return nil
	}
	return c.fail(cuda.ErrInvalidValue, "attribute %d of kernel %s cannot be %d", k, f.Name(), v)
}

// clusterDims is the value of CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, in bytes.
func clusterDims(value []byte) (dims [3]uint32) {
	if len(value) > 0 {
		dims = [3]uint32{le32(value), le32(value[4:]), le32(value[8:])}
	}
	return dims
}

func clusterValue(dims [3]uint32) []byte {
	b := make([]byte, attributeValueBytes)
	for i, n := range dims {
		binary.LittleEndian.PutUint32(b[4*i:], n)
	}
	return b
}

// occupancyClusters gets (number, function, configuration). A multiprocessor of PVDRM runs a cluster
// at a time, of any size; the answer is how many blocks may be there, in clusters.
func occupancyClusters(c *call) error {
	return c.occupancyOfClusters(func(_ *function, each, multiprocessors int, size uint64) uint64 {
		if size == 0 || each == 0 {
			return 0
		}
		return max(uint64(each)*uint64(multiprocessors)/size, 1)
	})
}

// occupancyClusterSize gets (size, function, configuration).
func occupancyClusterSize(c *call) error {
	return c.occupancyOfClusters(func(f *function, each, _ int, _ uint64) uint64 {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case each == 0:
			return 0
		case f.notPortable:
			return f.mod.ctx.Device().MaxCluster()
		}
		return portableCluster
	})
}

// driversClusters asks the driver, which knows how clusters lie on the GPU.
func (c *call) driversClusters(to out, f *function, cfg *cuda.LaunchConfig, dims [3]uint32) error {
	q := drm.AskClusters
	if c.entry.name == "cuOccupancyMaxPotentialClusterSize" {
		q = drm.AskClusterSize
		f.mu.Lock()
		portable := !f.notPortable // the worker lets kernels have larger ones
		f.mu.Unlock()
		if portable {
			return to.set(portableCluster)
		}
	}
	var values []uint64
	for _, list := range [][3]uint32{cfg.Grid, cfg.Block, dims} {
		for _, n := range list {
			values = append(values, uint64(n))
		}
	}
	answer, err := f.mod.ctx.Ask(c.entry.name, q, f.Function, append(values, uint64(cfg.Shared))...)
	if err != nil {
		return err
	}
	if len(answer) != 1 {
		return c.fail(cuda.ErrUnknown, "an answer of %d values", len(answer))
	}
	return to.set(answer[0])
}

func (c *call) occupancyOfClusters(answer func(f *function, each, multiprocessors int, size uint64) uint64) error {
	if c.u64(1) == 0 {
		return c.fail(cuda.ErrInvalidValue, "no function")
	}
	to, f, err := c.outAndFunction(0, 4, 1)
	if err != nil {
		return err
	}
	dev := f.mod.ctx.Device()
	if dev.MaxCluster() == 0 {
		return c.fail(cuda.ErrNotSupported, "the device has no clusters; they need compute capability 9.0 (--sm 9.0) and the software GPU")
	}
	cfg, _, _, err := c.launchConfig(2)
	if err != nil {
		return err
	}
	dims, err := c.clusterOf(f, &cfg)
	if err != nil {
		return err
	}
	if dev.Images() {
		return c.driversClusters(to, f, &cfg, dims)
	}
	threads := uint64(cfg.Block[0]) * uint64(cfg.Block[1])
	if threads <= maxBlockThreads {
		threads *= uint64(cfg.Block[2])
	}
	each := f.resident(dev.Multiprocessor(), int(min(threads, maxBlockThreads)), uint64(cfg.Shared))
	multiprocessors, _ := attribute(dev, int(cuda.AttributeMultiprocessorCount))
	if dims == [3]uint32{} {
		dims = f.rule.required
	}
	return to.set(answer(f, each, multiprocessors, uint64(dims[0])*uint64(dims[1])*uint64(dims[2])))
}

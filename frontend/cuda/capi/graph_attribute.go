package capi

import (
	"encoding/binary"
	"errors"
	"maps"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// Attributes of kernel nodes are those of launches: a number, and a union of which no attribute has
// more than the first 32 bytes. Before CUDA 11.8 the program's variable has no others.
const (
	attributeValueBytes = 32
	launchPriority      = 8 // CU_LAUNCH_ATTRIBUTE_PRIORITY
)

// attribute is the value of an attribute of the launch. It is nil for one that was not set and
// whose default is not known.
func (w *kernelWork) attribute(id uint32) []byte {
	v := make([]byte, attributeValueBytes)
	switch set, ok := w.attributes[id]; {
	case id == launchCooperative && w.cfg.Cooperative:
		v[0] = 1
	case id == launchCluster:
		copy(v, clusterValue(w.cfg.Cluster))
	case ok:
		copy(v, set)
	case id != launchCooperative && id != launchPriority && id != launchPolicy:
		return nil
	}
	return v
}

// with is the launch with other attributes, checked as a launch is.
func (w *kernelWork) with(c *call, attributes map[uint32][]byte, together bool, cluster [3]uint32) (made *kernelWork, err error) {
	copied := *w
	made = &copied
	made.attributes, made.cfg.Cooperative, made.cfg.Cluster = attributes, together, cluster
	if made.cluster, err = c.nodeCluster(w.f, &made.cfg); err != nil {
		return nil, err
	}
	if err := c.checkShape(w.f, made.cfg); err != nil {
		return nil, err
	}
	return made, made.add(w.f.mod.ctx.NewBatch())
}

// inherit gives new work of a kernel node the attributes of the work that it replaces: parameters
// do not name them.
func (c *call) inherit(work, now any) (any, error) {
	w, ok := work.(*kernelWork)
	was, before := now.(*kernelWork)
	if !ok || !before || was.attributes == nil && !was.cfg.Cooperative && was.cfg.Cluster == [3]uint32{} {
		if ok && before {
			w.updatable = was.updatable
		}
		return work, nil
	}
	w.updatable = was.updatable
	return w.with(c, was.attributes, was.cfg.Cooperative, was.cfg.Cluster)
}

// kernelNodeGetAttribute gets (node, attribute, value).
func kernelNodeGetAttribute(c *call) error {
	to, err := c.out(2, attributeValueBytes)
	if err != nil {
		return err
	}
	return c.withGraphs(func(*graphs) error {
		n, err := c.nodeOf(0, graph.Kernel)
		if err != nil {
			return err
		}
		id := c.u32(1)
		if err := c.knownAttribute(id); err != nil {
			return err
		}
		v := n.Work.(*kernelWork).attribute(id)
		if id == launchUpdatable {
			v = n.Work.(*kernelWork).updatable.value()
		}
		if v == nil {
			return c.fail(cuda.ErrNotSupported, "the attribute %d of a kernel node, which was not set", id)
		}
		return to.write(v)
	})
}

// kernelNodeSetAttribute gets (node, attribute, value).
func kernelNodeSetAttribute(c *call) error {
	value, err := c.read(c.u64(2), attributeValueBytes)
	if err != nil {
		return err
	}
	id := c.u32(1)
	if id == launchUpdatable {
		return c.setUpdatable(value)
	}
	whole := append(binary.LittleEndian.AppendUint64(nil, uint64(id)), value...)
	if err := c.checkAttribute(whole); err != nil {
		return err
	}
	return c.withGraphs(func(*graphs) error {
		n, err := c.nodeOf(0, graph.Kernel)
		if err != nil {
			return err
		}
		w := n.Work.(*kernelWork)
		attributes, together, cluster := maps.Clone(w.attributes), w.cfg.Cooperative, w.cfg.Cluster
		switch id {
		case launchCooperative:
			together = le32(value) != 0
		case launchCluster:
			cluster = clusterDims(value)
		default:
			if attributes == nil {
				attributes = map[uint32][]byte{}
			}
			if id == launchPriority {
				value = priorityValue(int32(le32(value)))
			}
			attributes[id] = value
		}
		made, err := w.with(c, attributes, together, cluster)
		if err != nil {
			return err
		}
		n.Work = made
		return nil
	})
}

// kernelNodeCopyAttributes gets (to, from).
func kernelNodeCopyAttributes(c *call) error {
	return c.withGraphs(func(*graphs) error {
		to, err := c.nodeOf(0, graph.Kernel)
		if err != nil {
			return err
		}
		from, err := c.nodeOf(1, graph.Kernel)
		if err != nil {
			return err
		}
		w := from.Work.(*kernelWork)
		if w.updatable != nil || to.Work.(*kernelWork).updatable != nil {
			return c.fail(cuda.ErrNotSupported, "attributes from or to a node that kernels may change")
		}
		made, err := to.Work.(*kernelWork).with(c, w.attributes, w.cfg.Cooperative, w.cfg.Cluster)
		if errors.Is(err, cuda.ErrInvalidClusterSize) { // the error is an H100's
			return c.fail(cuda.ErrInvalidValue, "attributes that kernel %s cannot have: %v", to.Work.(*kernelWork).f.Name(), err)
		}
		if err != nil {
			return err
		}
		to.Work = made
		return nil
	})
}

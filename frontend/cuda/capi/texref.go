package capi

import (
	"encoding/binary"
	"errors"
	"regexp"
	"strings"
	"sync"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/texture"
)

// reference is a CUtexref or CUsurfref: a variable of a module that holds the address of a
// descriptor, which each change writes again. One that the program made itself has no variable, and
// no kernel reads it.
type reference struct {
	ctx     *context
	surface bool
	at      cuda.DevicePtr // of the variable, or 0

	mu         sync.Mutex
	bound      binding
	descriptor cuda.DevicePtr // in device memory; 0 until something is bound
}

func (r *reference) owner() *context { return r.ctx }

// binding is what a reference stands for, and how kernels read it.
type binding struct {
	format, channels uint32
	sampler          [textureBytes]byte // CUDA_TEXTURE_DESC
	resource         []byte             // CUDA_RESOURCE_DESC; nil: nothing is bound
}

// Places in CUDA_TEXTURE_DESC and CUDA_RESOURCE_DESC.
const (
	samplerFilter    = 12
	samplerFlags     = 16
	samplerAniso     = 20
	samplerMipFilter = 24
	samplerBias      = 28
	samplerClamp     = 32
	samplerBorder    = 40

	resourceHandle = 8 // of an array, or the address
	resourceFormat = 16
	resourceSize   = 24
)

// newReference makes a reference with NVIDIA's defaults: numbers of 32 bits, clamped.
func newReference(x *context, surface bool, at cuda.DevicePtr) *reference {
	r := &reference{ctx: x, surface: surface, at: at, bound: binding{format: 0x20, channels: 1}}
	for dim := range 3 {
		r.bound.sampler[4*dim] = byte(texture.Clamp)
	}
	return r
}

// declared finds lists of texture and surface references in PTX.
var declared = regexp.MustCompile(`\.(texref|surfref|tex\s+\.u(?:32|64))\s+([^;]*);`)

// referencesIn lists the names of references in PTX, and whether they are surfaces'.
func referencesIn(ptx []byte) map[string]bool {
	var all map[string]bool
	for _, m := range declared.FindAllSubmatch(ptx, -1) {
		for name := range strings.SplitSeq(string(m[2]), ",") {
			name, _, _ = strings.Cut(name, "=")
			if all == nil {
				all = map[string]bool{}
			}
			all[strings.TrimSpace(name)] = string(m[1]) == "surfref"
		}
	}
	return all
}

func moduleGetTexRef(c *call) error  { return c.moduleReference(false) }
func moduleGetSurfRef(c *call) error { return c.moduleReference(true) }

// moduleReference gets (reference, module, name).
func (c *call) moduleReference(surface bool) error {
	to, m, name, err := c.outAndName()
	if err != nil {
		return err
	}
	if err := c.needTextures(m.ctx); err != nil {
		return err
	}
	if of, ok := m.references[name]; !ok || of != surface {
		return c.fail(cuda.ErrNotFound, "the module has no such reference as %q", name)
	}
	at, _, err := m.Global(name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handles[name] == 0 {
		if m.handles == nil {
			m.handles = map[string]uint64{}
		}
		m.handles[name] = c.lib.handles.add(newReference(m.ctx, surface, at))
	}
	return to.set(m.handles[name])
}

// dropReferences gives up the references of a module that is unloaded. M.mu is held.
func (c *call) dropReferences(m *module) error {
	var failed []error
	for _, h := range m.handles {
		if r, ok := find[*reference](c.lib, h); ok && r.descriptor != 0 {
			failed = append(failed, m.ctx.MemFree(r.descriptor))
		}
		c.lib.handles.remove(h)
	}
	return errors.Join(failed...)
}

func texRefCreate(c *call) error {
	to, x, err := c.outInContext(0, 8)
	if err == nil {
		err = c.needTextures(x)
	}
	if err != nil {
		return err
	}
	return to.set(c.lib.handles.add(newReference(x, false, 0)))
}

func texRefDestroy(c *call) error {
	r, err := c.reference(0, false)
	if err != nil {
		return err
	}
	if r.at != 0 {
		return c.fail(cuda.ErrInvalidValue, "the reference belongs to a module")
	}
	c.lib.handles.remove(c.u64(0))
	return nil
}

func (c *call) reference(i int, surface bool) (*reference, error) {
	r, ok := find[*reference](c.lib, c.u64(i))
	if !ok || r.surface != surface {
		return nil, c.fail(cuda.ErrInvalidValue, "0x%x is no such reference", c.u64(i))
	}
	return r, nil
}

// setReference changes what the reference in argument i stands for.
func (c *call) setReference(i int, surface bool, change func(b *binding) error) error {
	r, err := c.reference(i, surface)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.bound
	if next.resource != nil {
		next.resource = append([]byte{}, next.resource...)
	}
	if err := change(&next); err != nil {
		return err
	}
	if err := c.bind(r, &next); err != nil {
		return err
	}
	r.bound = next
	return nil
}

// setSampler changes a word of how kernels read.
func (c *call) setSampler(at int, v uint32) error {
	return c.setReference(0, false, func(b *binding) error {
		binary.LittleEndian.PutUint32(b.sampler[at:], v)
		return nil
	})
}

// bind writes what kernels find, once all work that was queued before is done. R.mu is held.
func (c *call) bind(r *reference, b *binding) error {
	if b.resource == nil && (r.bound.resource == nil || r.at == 0) {
		return nil
	}
	var raw [texture.Size]byte
	if b.resource != nil {
		d, err := c.descriptorOf(r, b)
		if err != nil {
			return err
		}
		d.Encode(&raw)
	}
	if r.at == 0 {
		return nil
	}
	x := r.ctx
	return c.settle(x, nil, func() (err error) {
		if err := x.Synchronize(); err != nil {
			return err
		}
		if r.descriptor == 0 {
			if r.descriptor, err = x.MemAlloc(texture.Size); err != nil {
				return err
			}
		}
		handle := uint64(r.descriptor)
		if b.resource == nil {
			handle = 0
		} else if err := x.MemcpyHtoD(r.descriptor, raw[:]); err != nil {
			return err
		}
		return x.MemcpyHtoD(r.at, wordBytes([]uint64{handle}))
	})
}

func (c *call) descriptorOf(r *reference, b *binding) (*texture.Descriptor, error) {
	if kind := le32(b.resource); kind == resourceLinear || kind == resourcePitch2D {
		binary.LittleEndian.PutUint32(b.resource[resourceFormat:], b.format)
		binary.LittleEndian.PutUint32(b.resource[resourceFormat+4:], b.channels)
	}
	d, _, err := c.described(r.ctx, b.resource)
	if err != nil {
		return nil, err
	}
	if !r.surface {
		d.Surface = false
		if err := c.sampler(&d, b.sampler[:]); err != nil {
			return nil, err
		}
	}
	if err := d.Check(); err != nil {
		return nil, c.fail(cuda.ErrInvalidValue, "%w", err)
	}
	return &d, nil
}

// resourceOf is CUDA_RESOURCE_DESC.
func resourceOf(kind uint32, words ...uint64) []byte {
	return append(wordBytes(append([]uint64{uint64(kind)}, words...)), make([]byte, resourceBytes-8-8*len(words))...)
}

// texRefSetAddress gets (offset, reference, address, bytes). The texture begins at the aligned address
// before; kernels add the offset.
func texRefSetAddress(c *call) error {
	to, err := c.optional(0, 8)
	if err != nil {
		return err
	}
	off := c.u64(2) % textureAlign
	if off != 0 && c.u64(0) == 0 {
		return c.fail(cuda.ErrInvalidValue, "the address 0x%x needs an offset, and there is no place for it", c.u64(2))
	}
	err = c.setReference(1, false, func(b *binding) error {
		switch n := c.u64(3); {
		case n == 0:
			b.resource = nil
		case n > 1<<62:
			return c.fail(cuda.ErrInvalidValue, "%d bytes", n)
		default:
			b.resource = resourceOf(resourceLinear, c.u64(2)-off, 0, n+off)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return to.set(off)
}

// texRefSetAddress2D gets (reference, CUDA_ARRAY_DESCRIPTOR, address, pitch).
func texRefSetAddress2D(c *call) error {
	d, err := c.read(c.u64(1), arrayBytes2D)
	if err != nil {
		return err
	}
	return c.setReference(0, false, func(b *binding) error {
		b.format, b.channels = le32(d[16:]), le32(d[20:])
		b.resource = resourceOf(resourcePitch2D, c.u64(2), 0, le64(d), max(le64(d[8:]), 1), c.u64(3))
		return nil
	})
}

func texRefSetArray(c *call) error { return c.setRefArray(resourceArray) }

func texRefSetMipmappedArray(c *call) error { return c.setRefArray(resourceMipmapped) }

// setRefArray gets (reference, array, flags). The format is the array's, with the flag for that and
// without.
func (c *call) setRefArray(kind uint32) error {
	const overrideFormat = 1 // CU_TRSA_OVERRIDE_FORMAT
	if c.u32(2)&^overrideFormat != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(2))
	}
	return c.setReference(0, false, func(b *binding) error {
		b.resource = resourceOf(kind, c.u64(1))
		_, desc, err := c.described(nil, b.resource)
		if err == nil {
			b.format, b.channels = le32(desc[24:]), le32(desc[28:])
		}
		return err
	})
}

// surfRefSetArray gets (reference, array, flags).
func surfRefSetArray(c *call) error {
	const forSurfaces = 2 // CUDA_ARRAY3D_SURFACE_LDST
	if err := c.noFlags(2); err != nil {
		return err
	}
	return c.setReference(0, true, func(b *binding) error {
		a, err := c.arrayOf(c.u64(1))
		if err != nil {
			return err
		}
		if le32(a.desc[32:])&forSurfaces == 0 {
			return c.fail(cuda.ErrInvalidValue, "the array was not made for surfaces")
		}
		b.resource = resourceOf(resourceArray, c.u64(1))
		return nil
	})
}

// texRefSetFormat gets (reference, format, channels).
func texRefSetFormat(c *call) error {
	if n := c.u32(2); !formatOf[c.u32(1)].Valid() || n > 4 || n == 3 {
		return c.fail(cuda.ErrInvalidValue, "the format %d with %d channels", c.u32(1), n)
	}
	return c.setReference(0, false, func(b *binding) error {
		b.format, b.channels = c.u32(1), c.u32(2)
		return nil
	})
}

// texRefSetAddressMode gets (reference, dimension, mode).
func texRefSetAddressMode(c *call) error {
	if c.u32(1) > 2 || c.u32(2) > uint32(texture.Border) {
		return c.fail(cuda.ErrInvalidValue, "the address mode %d of dimension %d", c.u32(2), c.i32(1))
	}
	return c.setSampler(4*int(c.u32(1)), c.u32(2))
}

func texRefSetFilterMode(c *call) error       { return c.setFilter(samplerFilter) }
func texRefSetMipmapFilterMode(c *call) error { return c.setFilter(samplerMipFilter) }

func (c *call) setFilter(at int) error {
	if c.u32(1) > 1 {
		return c.fail(cuda.ErrInvalidValue, "the filter mode %d", c.u32(1))
	}
	return c.setSampler(at, c.u32(1))
}

// texRefSetFlags gets (reference, flags).
func texRefSetFlags(c *call) error {
	if f := c.u32(1); f >= seamlessCubes { // which NVIDIA's libcuda has for objects only
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", f)
	}
	return c.setSampler(samplerFlags, c.u32(1))
}

func texRefSetMaxAnisotropy(c *call) error   { return c.setSampler(samplerAniso, c.u32(1)) }
func texRefSetMipmapLevelBias(c *call) error { return c.setSampler(samplerBias, c.u32(1)) }

// texRefSetMipmapLevelClamp gets (reference, least, greatest).
func texRefSetMipmapLevelClamp(c *call) error {
	return c.setReference(0, false, func(b *binding) error {
		binary.LittleEndian.PutUint32(b.sampler[samplerClamp:], c.u32(1))
		binary.LittleEndian.PutUint32(b.sampler[samplerClamp+4:], c.u32(2))
		return nil
	})
}

// texRefSetBorderColor gets (reference, four floats).
func texRefSetBorderColor(c *call) error {
	v, err := c.read(c.u64(1), 16)
	if err != nil {
		return err
	}
	return c.setReference(0, false, func(b *binding) error {
		copy(b.sampler[samplerBorder:], v)
		return nil
	})
}

package capi

import (
	"slices"

	"pvdrm/frontend/cuda"
)

// askReference writes what of returns to the first arguments, of which some may be null, for the
// reference in argument i.
func (c *call) askReference(i int, surface bool, size int, of func(b *binding) ([]byte, error)) error {
	r, err := c.reference(i, surface)
	if err != nil {
		return err
	}
	r.mu.Lock()
	b, err := of(&r.bound)
	b = slices.Clone(b)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	for k := range i {
		to, err := c.optional(k, size)
		if err != nil {
			return err
		}
		if err := to.write(b[k*size : (k+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

// askSampler writes words of how kernels read.
func (c *call) askSampler(i, at int) error {
	return c.askReference(i, false, 4, func(b *binding) ([]byte, error) { return b.sampler[at : at+4*i], nil })
}

// askBound writes the handle or address that is bound, if it is of one of some kinds.
func (c *call) askBound(surface bool, kinds ...uint32) error {
	return c.askReference(1, surface, 8, func(b *binding) ([]byte, error) {
		for _, k := range kinds {
			if b.resource != nil && le32(b.resource) == k {
				return b.resource[resourceHandle : resourceHandle+8], nil
			}
		}
		return nil, c.fail(cuda.ErrInvalidValue, "nothing of that kind is bound to the reference")
	})
}

func texRefGetAddress(c *call) error        { return c.askBound(false, resourceLinear, resourcePitch2D) }
func texRefGetArray(c *call) error          { return c.askBound(false, resourceArray) }
func texRefGetMipmappedArray(c *call) error { return c.askBound(false, resourceMipmapped) }
func surfRefGetArray(c *call) error         { return c.askBound(true, resourceArray) }

// texRefGetFormat gets (format, channels, reference).
func texRefGetFormat(c *call) error {
	return c.askReference(2, false, 4, func(b *binding) ([]byte, error) {
		return wordBytes([]uint64{uint64(b.format) | uint64(b.channels)<<32}), nil
	})
}

// texRefGetAddressMode gets (mode, reference, dimension).
func texRefGetAddressMode(c *call) error {
	if c.u32(2) > 2 {
		return c.fail(cuda.ErrInvalidValue, "the dimension %d", c.i32(2))
	}
	return c.askSampler(1, 4*int(c.u32(2)))
}

func texRefGetFilterMode(c *call) error       { return c.askSampler(1, samplerFilter) }
func texRefGetFlags(c *call) error            { return c.askSampler(1, samplerFlags) }
func texRefGetMaxAnisotropy(c *call) error    { return c.askSampler(1, samplerAniso) }
func texRefGetMipmapFilterMode(c *call) error { return c.askSampler(1, samplerMipFilter) }
func texRefGetMipmapLevelBias(c *call) error  { return c.askSampler(1, samplerBias) }

// texRefGetMipmapLevelClamp gets (least, greatest, reference).
func texRefGetMipmapLevelClamp(c *call) error { return c.askSampler(2, samplerClamp) }

// texRefGetBorderColor gets (four floats, reference).
func texRefGetBorderColor(c *call) error {
	return c.askReference(1, false, 16, func(b *binding) ([]byte, error) { return b.sampler[samplerBorder : samplerBorder+16], nil })
}

// paramSetTexRef gets (function, unit, reference). Kernels name the references that they read.
func paramSetTexRef(c *call) error {
	if _, err := c.function(0); err != nil {
		return err
	}
	_, err := c.reference(2, false)
	return err
}

package texture

// rowAlign is the alignment of the rows of an array.
const rowAlign = 64

// ArrayAlign is the alignment of an array's memory, and of its levels.
const ArrayAlign = 512

// Place gives a descriptor whose shape, extents and format are set the strides of a CUDA
// array, and returns the bytes that its memory takes: rows one after the other, then
// slices, faces or layers, then levels. It fails as Check does for an
// array at address 0.
func (d *Descriptor) Place() (bytes uint64, err error) {
	if !d.Format.Valid() {
		return 0, d.Check()
	}
	d.Base, d.First, d.Total = 0, 0, 0
	d.stride()
	if d.Levels != 0 && d.Shape != Shape3D {
		d.Total = uint32(min(d.slices(), MaxLayers+1))
	}
	if err := d.Check(); err != nil {
		return 0, err
	}
	if d.Levels != 0 {
		return d.Bytes(), nil
	}
	return d.slices() * d.Slice, nil
}

// stride gives the first level the strides of an array.
func (d *Descriptor) stride() {
	d.Pitch = (d.rowBytes() + rowAlign - 1) &^ (rowAlign - 1)
	d.Slice = d.Pitch * uint64(d.Height)
}

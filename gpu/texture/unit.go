package texture

// Raw is the memory of one texel: up to 16 bytes, little-endian.
type Raw struct{ Lo, Hi uint64 }

// Batch is a list of texels that are read at once.
type Batch struct {
	Size uint64 // of a texel, in bytes: 1, 2, 4, 8 or 16
	N    int    // of Addr that are wanted
	Addr [8]uint64
	Data [8]Raw // what lies at Addr
}

// Memory is where texels are read.
type Memory interface {
	// Texels fills in the first N of Data. Each address is a multiple of Size.
	Texels(b *Batch)
}

// Unit fetches from textures, one fetch after the other. It holds what a fetch reads, so
// that no fetch allocates.
type Unit struct {
	Memory Memory
	batch  Batch
	sum    blend
	edge   Raw // a texel of the border
}

package hw

// How much the copy engine does in one slice.
const (
	sliceBytes  = 1 << 20
	slicePieces = 1 << 12 // rows, or parts of them
)

// View is an address space as an engine sees it: through the page directory that a channel
// descriptor names.
type View struct {
	MMU       *MMU
	Directory uint64 // VRAM address
	End       uint64 // first address that is not translated, a multiple of LargePage; 0 for none
}

// ViewOf reads the descriptor at a VRAM address.
func ViewOf(m *MMU, descriptor uint64) View {
	limit := m.VRAM.Word(descriptor + DescLimit)
	return View{MMU: m, Directory: m.VRAM.Word(descriptor + DescDirectory), End: (limit | (LargePage - 1)) + 1}
}

// Lookup is MMU.Lookup within the limit of the view.
func (v View) Lookup(va uint64) (page []byte, base uint64, readOnly, ok bool) {
	if v.End != 0 && va >= v.End {
		return nil, 0, false, false
	}
	return v.MMU.Lookup(v.Directory, va)
}

// Fault is an access that a view does not allow.
type Fault struct {
	Addr   uint64
	Write  bool
	Mapped bool // for reading only
}

// Slice is the work of the copy engine during which the translations of its view stay valid.
type Slice struct {
	Moved uint64 // bytes

	view     View
	src, dst piece
	left     uint64 // bytes
}

// NewSlice begins a slice.
func NewSlice(v View) *Slice { return &Slice{view: v, left: sliceBytes} }

// piece is a translation.
type piece struct {
	mem      []byte
	base     uint64
	readOnly bool
}

// at returns the memory from va to the end of the piece that holds it.
func (s *Slice) at(p *piece, va uint64, write bool) ([]byte, *Fault) {
	if va-p.base >= uint64(len(p.mem)) {
		mem, base, readOnly, ok := s.view.Lookup(va)
		if !ok {
			return nil, &Fault{Addr: va, Write: write}
		}
		*p = piece{mem: mem, base: base, readOnly: readOnly}
	}
	if write && p.readOnly {
		return nil, &Fault{Addr: va, Write: true, Mapped: true}
	}
	return p.mem[va-p.base:], nil
}

// Job is a transfer in progress. Step does a part of it, at most a slice.
type Job interface {
	Step(s *Slice) (more bool, fault *Fault)
}

// Rows is the shape of a transfer and how far it has come.
type Rows struct {
	Width, Height uint64
	row, col      uint64
}

func (p *Rows) done() bool { return p.Width == 0 || p.row == p.Height }

// advance moves on by n bytes of the current row.
func (p *Rows) advance(s *Slice, n uint64) {
	s.left -= n
	s.Moved += n
	if p.col += n; p.col == p.Width {
		p.row, p.col = p.row+1, 0
	}
}

// Copy is a copy in progress. Preconditions: no row wraps around.
type Copy struct {
	Rows
	Dst, Src           uint64
	DstPitch, SrcPitch uint64
}

// Step implements Job.
func (j *Copy) Step(s *Slice) (more bool, fault *Fault) {
	for range slicePieces {
		if j.done() || s.left == 0 {
			break
		}
		src, fault := s.at(&s.src, j.Src+j.row*j.SrcPitch+j.col, false)
		if fault != nil {
			return false, fault
		}
		dst, fault := s.at(&s.dst, j.Dst+j.row*j.DstPitch+j.col, true)
		if fault != nil {
			return false, fault
		}
		n := min(j.Width-j.col, s.left, uint64(len(src)), uint64(len(dst)))
		copy(dst[:n], src[:n])
		j.advance(s, n)
	}
	return !j.done(), nil
}

// Fill is a fill in progress. Preconditions: Size is 1, 2 or 4, Dst, Width and Pitch are
// multiples of it, and no row wraps around.
type Fill struct {
	Rows
	Dst, Pitch uint64
	Pattern    uint32
	Size       uint32
}

// Step implements Job.
func (j *Fill) Step(s *Slice) (more bool, fault *Fault) {
	for range slicePieces {
		if j.done() || s.left == 0 {
			break
		}
		dst, fault := s.at(&s.dst, j.Dst+j.row*j.Pitch+j.col, true)
		if fault != nil {
			return false, fault
		}
		// Pages and slices are multiples of 4, so that pieces hold whole patterns.
		dst = dst[:min(j.Width-j.col, s.left, uint64(len(dst)))]
		for i := range min(int(j.Size), len(dst)) {
			dst[i] = byte(j.Pattern >> (8 * i))
		}
		for n := int(j.Size); n < len(dst); n *= 2 {
			copy(dst[n:], dst[:n])
		}
		j.advance(s, uint64(len(dst)))
	}
	return !j.done(), nil
}

// Stamp writes a 64-bit number, such as the time. Preconditions: VA is a multiple of 8.
type Stamp struct {
	VA  uint64
	Now func() uint64
}

// Step implements Job.
func (j Stamp) Step(s *Slice) (more bool, fault *Fault) {
	dst, fault := s.at(&s.dst, j.VA, true)
	if fault != nil {
		return false, fault
	}
	StoreWord(dst[:8], j.Now())
	return false, nil
}

// Word reads or writes a word of 4 or 8 bytes at once. Preconditions: VA is a multiple of Size.
type Word struct {
	VA    uint64
	Value uint64 // what is written, or was read
	Size  uint32
	Write bool
}

// Step implements Job.
func (j *Word) Step(s *Slice) (more bool, fault *Fault) {
	b, fault := s.at(&s.dst, j.VA, j.Write)
	switch {
	case fault != nil:
	case j.Write && j.Size == 8:
		StoreWord(b[:8], j.Value)
	case j.Write:
		StoreHalf(b[:4], uint32(j.Value))
	case j.Size == 8:
		j.Value = LoadWord(b[:8])
	default:
		j.Value = uint64(LoadHalf(b[:4]))
	}
	return false, fault
}

package texture

// seam is a face of a cube whose filter looks beyond its edges: onto the faces beside it.
type seam struct {
	face  uint32
	size  int32  // texels of an edge
	slice uint32 // of the cube's first face
}

// free is around for a filter whose neighbours may lie beyond the ends, at -1 and at the size.
func (a axis) free(x float64) span {
	u, _ := a.place(x)
	fixed := floor(u*one+0.5) - one/2
	i := fixed >> fractionBits
	return span{at: [2]int32{int32(i), int32(i + 1)}, weight: uint32(fixed & (one - 1))}
}

// missing is which of the four texels of a filter would lie beyond a corner of a cube, where three
// faces meet and there is none, or -1.
func (f *footprint) missing() int {
	if f.seam.size == 0 {
		return -1
	}
	for i := range 4 {
		if f.seam.outside(f.x.at[i&1]) && f.seam.outside(f.y.at[i>>1]) {
			return i
		}
	}
	return -1
}

// share gives the weight of a missing texel to the other three: a third, rounded, to each of those
// beside it, and the rest to the one across.
func share(missing int, w *[4]uint32) {
	all := w[missing]
	third := (all + 1) / 3
	w[missing] = 0
	w[missing^1] += third
	w[missing^2] += third
	w[missing^3] += all - 2*third
}

// texel is where texel i of a filter lies in a picture: an index of the axes, and the slice.
func (f *footprint) texel(i int) (x, y int32, slice uint32) {
	x, y = f.x.at[i&1], f.y.at[i>>1]
	if f.seam.size == 0 {
		return x, y, f.slice
	}
	return f.seam.neighbour(x, y)
}

// outside reports whether an index lies beyond an edge.
func (s *seam) outside(i int32) bool { return uint32(i) >= uint32(s.size) }

// neighbour is the texel at indexes of which at most one lies beyond an edge, by one: then it is
// the texel of the other face that has the same edge. Centres of texels are vectors of whole
// numbers, whose largest component is the size, and one less for a texel that lies at an edge.
func (s *seam) neighbour(i, j int32) (x, y int32, slice uint32) {
	if !s.outside(i) && !s.outside(j) {
		return i, j, s.slice + s.face
	}
	n := s.size
	sc, tc := min(max(2*i+1-n, -n), n), min(max(2*j+1-n, -n), n)
	a, b, c := offFace(s.face, float64(sc), float64(tc), float64(n-1))
	face := major(a, b, c)
	at, to, _ := onFace(face, a, b, c)
	return (int32(at) + n) >> 1, (int32(to) + n) >> 1, s.slice + face
}

// offFace is the inverse of onFace.
func offFace(face uint32, s, t, out float64) (x, y, z float64) {
	switch face {
	case 0:
		return out, -t, -s
	case 1:
		return -out, -t, s
	case 2:
		return s, out, t
	case 3:
		return s, -out, -t
	case 4:
		return s, -t, out
	}
	return -s, -t, -out
}

// between is a channel of a missing texel as tld4 has it: as if the three others were it.
func (u *Unit) between(d *Descriptor, t *[4]*Raw, missing, channel int) uint32 {
	var w [4]uint32
	w[missing] = one
	share(missing, &w)
	var g group
	for i := range t {
		if i != missing {
			g.texel[g.n], g.weight[g.n] = t[i], w[i]
			g.n++
		}
	}
	u.sum.start(d)
	if channel < int(d.Channels) && !d.numbers() {
		return d.Format.mean(d, &g, channel)
	}
	u.sum.add(d, &g)
	return u.sum.result(d)[channel]
}

// mean is a weighted sum of integers that are read as such.
func (f Format) mean(d *Descriptor, g *group, channel int) uint32 {
	sum := int64(0)
	for i, t := range g.texel[:g.n] {
		x := int64(f.integer(f.channel(t, channel)))
		if f.Signed() {
			x = int64(int32(x))
		}
		sum += x * int64(g.weight[i])
	}
	if f.Size() < 4 { // larger ones are not rounded
		sum += one / 2
	}
	return uint32(sum >> fractionBits)
}

package ptx

// Geometry is the shape of a texture or surface (sections 9.7.9 and 9.7.10).
type Geometry uint8

// Geometries.
const (
	GeometryNone Geometry = iota
	Geometry1D
	Geometry2D
	Geometry3D
	GeometryArray1D
	GeometryArray2D
	GeometryCube
	GeometryArrayCube
	Geometry4D // of tensors only
	Geometry5D
	numGeometries
)

var geometryNames = [numGeometries]string{"", "1d", "2d", "3d", "a1d", "a2d", "cube", "acube", "4d", "5d"}

func (g Geometry) String() string { return geometryNames[g] }

// Layered reports whether the first coordinate is the number of a layer.
func (g Geometry) Layered() bool {
	return g == GeometryArray1D || g == GeometryArray2D || g == GeometryArrayCube
}

// Axes returns how many coordinates there are without a layer.
func (g Geometry) Axes() int {
	return [numGeometries]int{0, 1, 2, 3, 1, 2, 3, 3, 4, 5}[g]
}

// Coordinates returns how many there are, the layer included.
func (g Geometry) Coordinates() int {
	if g.Layered() {
		return g.Axes() + 1
	}
	return g.Axes()
}

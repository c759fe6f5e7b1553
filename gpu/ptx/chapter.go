package ptx

// Chapter is a heading of chapter 9.7 of the manual.
type Chapter struct{ Number, Title string }

// Chapters lists the headings of chapter 9.7 that the instruction table covers. The caller must
// not change the slice.
func Chapters() []Chapter { return chapters }

var chapters = []Chapter{
	{Number: "9.7.1", Title: "Integer arithmetic"},
	{Number: "9.7.2", Title: "Extended-precision integer arithmetic"},
	{Number: "9.7.3", Title: "Floating point"},
	{Number: "9.7.4", Title: "Half precision floating point"},
	{Number: "9.7.5", Title: "Comparison and selection"},
	{Number: "9.7.6", Title: "Half precision comparison"},
	{Number: "9.7.7", Title: "Logic and shift"},
	{Number: "9.7.8", Title: "Data movement and conversion"},
	{Number: "9.7.9", Title: "Texture"},
	{Number: "9.7.10", Title: "Surface"},
	{Number: "9.7.11", Title: "Control flow"},
	{Number: "9.7.12", Title: "Parallel synchronisation and communication"},
	{Number: "9.7.13", Title: "Warp level matrix"},
	{Number: "9.7.14", Title: "Asynchronous warpgroup matrix"},
	{Number: "9.7.15", Title: "Stack manipulation"},
	{Number: "9.7.16", Title: "Scalar video"},
	{Number: "9.7.17", Title: "SIMD video"},
	{Number: "9.7.18", Title: "Miscellaneous"},
}

// Package fuzz holds the fuzz targets that need more than one part of PVDRM, the
// hours that every target of the tree has run, and the program that runs them for
// long: see docs/fuzzing.md.
package fuzz

//go:build !goexperiment.simd || !amd64

// Package vector is empty where there are no vectors.
package vector

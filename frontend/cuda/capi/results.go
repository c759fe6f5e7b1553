package capi

import (
	"strings"

	"pvdrm/frontend/cuda"
)

// Results of cuda.h that only a C library returns.
const (
	notInitialized      cuda.Result = 3
	invalidImage        cuda.Result = 200
	invalidContext      cuda.Result = 201
	noBinaryForGPU      cuda.Result = 209
	unsupportedLimit    cuda.Result = 215
	unsupportedAffinity cuda.Result = 224
	illegalState        cuda.Result = 401

	invalidSource cuda.Result = 300
	fileNotFound  cuda.Result = 301
)

// describe is a CUresult in words.
func describe(r cuda.Result) string {
	_, words, _ := strings.Cut(r.Error(), ": ")
	return words
}

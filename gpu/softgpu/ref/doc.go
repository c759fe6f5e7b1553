// Package ref is the reference interpreter of PTX: it runs a verified module
// one lane and one statement at a time, straight from the syntax tree. It is slow
// and meant to be obviously right, so that package exec can be compared with
// it; no kernel of a guest runs on it.
//
// Each thread has its own position, registers, call stack and local memory.
// Threads of a block have short turns, one after the other; those that an
// instruction brings together (barriers, shuffles, votes, …) wait there for
// each other. Blocks run one after another. Floating point is computed exactly,
// in integers, and rounded once (number.go).
//
// Only the approximations (.approx, .full), for which PTX allows an error, are
// taken from package math. Parsing, the checks of Verify, the types of a launch,
// the formatting of printf (package cprintf) and the fetches of textures (package
// texture) are shared with exec; nothing else that computes is.
//
// The package starts no goroutines and has no locks. A Program may be used by
// several goroutines after Link, each Run by one.
package ref

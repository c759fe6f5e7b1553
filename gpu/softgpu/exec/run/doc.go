// Package run runs kernels of decoded programs: launches, blocks, warps and barriers.
//
// # Divergence
//
// A warp is a set of fragments: groups of lanes with one position. Basic blocks
// are laid out so that loops are contiguous, and the fragment with the deepest call
// stack and then the lowest position runs first; fragments that meet are merged. So
// lanes reconverge at the immediate post-dominator at the latest. A fragment that runs
// long while others wait gives way to them, as does a warp to other warps, so lanes may
// wait for each other as on Volta and later. Workers take blocks in order, short ones
// several at a time (dispatch.go), and a block keeps its worker to its end: a block may wait for earlier ones,
// not for later ones. Native code does the same with the fragments of one frame (package jit, apart.go); where others are
// next, it leaves. In a cooperative launch
// each block has a worker of its own, so it may wait for all others (grid.go).
//
// # Preemption
//
// Control.Preempt makes workers stop where no instruction is under way: at the heads of
// loops, at calls, and between blocks. Native code leaves for the interpreter there, as it
// does for a stop, so a loop pays nothing for it. A State then has the blocks that had
// begun; Launch.From goes on from one. Nothing of a State is trusted: it may come from
// another machine.
package run

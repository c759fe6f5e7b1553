// Package lower decodes PTX modules into package ir: each function once, into flat
// operations whose basic blocks are laid out so that loops are contiguous (a weak
// topological order, on which the scheduling of divergent lanes relies).
package lower

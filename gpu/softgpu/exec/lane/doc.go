// Package lane holds the operations of a warp's lanes: loads, stores, atomics, votes,
// shuffles, predicates, special registers. Those that compute each lane for itself are
// rows of the generated package table.
//
// Built with GOEXPERIMENT=simd for amd64, as make build does, loads and stores of whole
// warps have twins that move 8 lanes at once, as have many rows of the table. They
// replace the portable ones at start if the processor has AVX2 and FMA;
// GODEBUG=cpu.avx2=off keeps the portable ones. Both give the same bits: make simd
// compares them lane by lane.
package lane

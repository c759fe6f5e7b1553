// Package lane holds the operations of a warp's lanes: loads, stores, atomics, votes,
// shuffles, predicates, special registers. Those that compute each lane for itself are
// rows of the generated package table.
//
// Built with GOEXPERIMENT=simd for amd64, as make build does, loads and stores of whole
// warps have twins that move 8 lanes at once, as have many rows of the table. They
// replace the portable ones at start if the processor has AVX2 and FMA;
// GODEBUG=cpu.avx2=off keeps the portable ones. Both give the same bits: make simd
// compares them lane by lane.
//
// wgmma (group.go) adds products as mma does, with these differences, which were measured on
// an H100 (tests/ptx/op/wgmma.*):
//
//   - All products of a row and a column, and the sum so far, are aligned to the largest exponent at
//     once: 16 of f16 and bf16, 8 of tf32, 32 of e4m3 and e5m2, of a sparse a as many as it has.
//   - Of e4m3 and e5m2, 13 bits below the unit of that exponent are kept, where others keep 25. An
//     f32 sum is cut to 13 bits of fraction, an f16 sum rounded to nearest even.
//   - A subnormal e4m3 or e5m2 counts with the exponent of the smallest normal number.
//   - imm-scale of -1 changes the signs of products, not that of NaN, which is 0x7fffffff or 0x7fff.
package lane

//go:build race

package nvidia

// The race detector keeps its notes where the window is in other programs: from
// 0x2000_0000_0000 to 0x4000_0000_0000.
const systemBase = 0x4100_0000_0000

//go:build !race

package nvidia

const systemBase = 0x2000_0000_0000

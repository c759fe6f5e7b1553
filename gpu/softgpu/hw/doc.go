// Package hw is the hardware of the software GPU: device memory, page tables and channel
// descriptors in it, the bus on which system memory lies, and the copy engine. It knows bytes and
// addresses; what a context, a memory object or a command is, its drivers say, of which package
// softgpu is one.
//
// Hardware trusts nothing that it reads from VRAM: guests can write there. Its types do not lock: the
// driver keeps translations away from what uses them.
package hw

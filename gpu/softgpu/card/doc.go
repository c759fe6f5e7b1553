// Package card is the software GPU as a PCI card: registers in BAR0, apertures onto VRAM in BAR1
// and BAR3, channels that fetch their commands from GPU memory. Package hw lists the registers and
// the formats; package softgpu has the engines behind them, the walks and the counters.
//
// # What software does
//
// The owner of the card writes page tables into VRAM, through an aperture or the window in BAR0,
// and a descriptor for each channel, which names a page directory, an indirect buffer and a control
// page. RegChannel makes the descriptor a channel's, the run list lets it run. To submit work,
// software writes command words anywhere in the address space of the channel, an entry of the
// indirect buffer that names them, and the new end of the buffer into the control page: that is the
// doorbell. The channel fetches the words, once, decodes and runs them in order. A fault or a wrong
// command halts the channel: its state tells, and it writes a record to its notifier.
//
// System memory is reached through the domain of the channel (softgpu.Domain), which SetDomain
// assigns, as the IOMMU of a host does: software on the card has no say in that. Apertures show VRAM
// only.
//
// # Who owns what
//
// A Card is safe for use by several goroutines. Locks, in the order in which they are taken:
//
//	channel.bind     the channel that is open, its domain; held while it is closed
//	registers.mu     the words of registers
//	channel.mu       get, put and how it ended
//	aperture.mu      translations that an aperture keeps, while they change
//
// The goroutine of a channel takes channel.mu only, so that who holds channel.bind may wait for it.
//
// Nothing that is read from VRAM is trusted. Accesses of 4 bytes, and of 8 to VRAM, on their natural
// boundary are served; all others read as ones and write nothing.
package card

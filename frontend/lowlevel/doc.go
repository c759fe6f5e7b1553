// Package lowlevel drives the card of package gpu/softgpu/card by its registers, as Nouveau and
// Gdev drive NVIDIA's: it knows neither DRM nor the backend. Tests and `pvdrm bench modes` run it on
// the card itself and in virtual machines of GPUvm, where each access may trap; it does not know
// which. What it is given says how it reaches page tables: through BAR3 and the window of BAR0, or,
// with Config.Calls, by hypercalls.
//
// # What it does
//
//   - VRAM is allocated from address 0 on, by first fit. Page directories, page tables and channel
//     descriptors (type instance) are mapped in BAR3 and written there word by word, zeros first:
//     memory may have been another's. What BAR3 needs itself is written through the window.
//   - Each mapping ends with a TLB flush. VRAM is mapped by pages of 2 MiB where it can be, system
//     memory by pages of 4 KiB.
//   - Work is submitted by an entry of the indirect buffer and the channel's doorbell in BAR1. The
//     indirect buffer, commands and the fence lie in system memory, so that waiting touches no
//     register.
//   - Copies of at most SmallCopy bytes go word by word through BAR1, larger ones by the copy engine
//     through a buffer of the context, or at once where the memory is pinned.
//
// A Driver and its Contexts are used by one goroutine at a time; a Shared is a context for one of several.
package lowlevel

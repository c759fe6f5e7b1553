// Package gpuvm shares one card among virtual machines at the level of its registers, apertures,
// page tables and channels: the GPU Access Aggregator of GPUvm. A VM is what a guest's driver
// (frontend/lowlevel) takes for a card.
//
// # Modes
//
// A Mode says what traps and who writes the page tables that the card uses:
//
//   - Full virtualization (fv). Every access traps. The guest writes its own tables; the Aggregator
//     scans the whole table of a directory when the guest flushes it, and writes a shadow of it, which
//     the card uses.
//   - Remap: accesses of BAR3 go straight to the VM's part of the card's BAR3, but for pages in which
//     a channel descriptor lies. BAR1 can be remapped likewise; control pages trap.
//   - Lazy: a flush marks the directory dirty, and the scan waits for the next activation of one of its
//     channels. The tables of BAR1 and BAR3 are scanned at the flush: the CPU uses them at once.
//   - Para-virtualization (pv). The card uses tables that the guest changes by hypercalls
//     (hypercall/paging). Nothing is scanned.
//
// # What a VM gets
//
// An equal, continuous part of VRAM, which it sees from address 0 on; an equal number of channels,
// which it sees from 0 on; a part of BAR1 and BAR3. In front of the parts lies the reserved area, with
// the Aggregator's own tables and run list, shadow tables and shadow descriptors. No page table entry
// that the card uses names it, nor another VM's part: entries are validated and shifted one by one.
// System memory is reached through a domain of the VM, by guest-physical addresses: an entry that names
// other frames is not copied, and the card would find nothing there either.
//
// Without parts (NewDynamic) a VM has what it uses: frames of VRAM of 2 MiB, of which the Aggregator keeps
// the guest's addresses, and channels that it has bound.
//
// A directory has a shadow while a channel uses it, however many do. Guest tables are scanned whole:
// nothing remembers which entries are in use. A shadow is dirty when it is new, so that entries that the
// guest wrote before it bound the channel are seen at the first activation.
//
// Descriptors of bound channels, and of BAR1 and BAR3, are the barrier: a trapped write to their pages,
// through an aperture or the window, renews the shadow descriptor. What the GPU itself writes there is
// not seen, as in the original: the guest harms its own channel.
//
// # Who owns what
//
// VM.mu guards all of a VM and is held during a trap; Aggregator.mu guards what VMs share: the reserved
// area, frames, channels, the run list, the window and the flush register of the card. queue.mu guards what
// waits for a VM's gate. They are taken in the order VM.mu, queue.mu, Aggregator.mu. An access that does not
// trap takes no lock.
package gpuvm

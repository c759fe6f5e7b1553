package trap

// A card of GPUvm as a PCI device of a virtual machine: how a driver finds it, and its BAR without a
// counterpart in hardware, of which the first page is a Mailbox. The vendor's number is no vendor's; the
// class is that of a processing accelerator.
const (
	PCIVendor = 0x1234
	PCIDevice = 0x4701
	PCIClass  = 0x120000

	PCIBAR   = 5
	PCIBytes = 2 * MailboxBytes
	PCIBell  = MailboxBytes // offset: a write has the request in the mailbox served
)

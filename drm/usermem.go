package drm

// UserMemory is the memory of the program that called an ioctl, for the
// pointers inside its argument. Both methods move all of b or fail with EFAULT.
type UserMemory interface {
	Read(addr uint64, b []byte) error
	Write(addr uint64, b []byte) error
}

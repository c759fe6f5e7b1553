// Package drm is the user API of the Direct Rendering Manager as PVDRM uses
// it: ioctl numbers and argument structs of the DRM core, of Linux's virtio-gpu
// driver (the carrier in a virtual machine) and of PVDRM's own driver, the
// command stream that EXEC takes, and the table that drives forwarding.
//
// The structs have the layout that a C program on x86-64 sees: little endian,
// naturally aligned, padded explicitly. Pointers are 64-bit user addresses.
//
// The package has no behaviour beyond encoding and decoding and makes no
// system calls. Errors are syscall.Errno values, as a DRM driver returns them.
package drm

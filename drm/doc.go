// Package drm is the user API of the Direct Rendering Manager as PVDRM uses
// it: ioctl numbers and argument structs of the DRM core, of Linux's virtio-gpu
// driver (the carrier in a virtual machine) and of PVDRM's own driver, the
// command stream that EXEC takes, and the table of ioctls, whose rows serve them
// on any Driver.
//
// The structs have the layout that a C program on x86-64 sees: little endian,
// naturally aligned, padded explicitly. Pointers are 64-bit user addresses.
//
// The package keeps no state and makes no system calls but to read the clock.
// Errors are syscall.Errno values, as a DRM driver returns them.
package drm

// Package interpose serves the DRM ioctls of programs that were not written for
// PVDRM.
package interpose

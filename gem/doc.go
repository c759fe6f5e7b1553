// Package gem holds what frontend and backend both need for GEM objects: handle
// tables, sync objects and the allocator of GPU virtual addresses. Nothing in it
// is safe for concurrent use; its owners have locks of their own.
package gem

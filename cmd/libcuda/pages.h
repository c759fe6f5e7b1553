// What lies under addresses of the program: pages that the device has, or the program's own.
#ifndef PVDRM_PAGES_H
#define PVDRM_PAGES_H

#include <stddef.h>
#include <stdint.h>

// pvdrm_swap replaces what is mapped at [addr, addr+n), private or shared memory that can be written,
// by other pages with the same contents. No write is lost: threads that write there wait meanwhile. To
// is a mapping of the new pages: of the file fd from off on, which is then mapped at addr, too; or,
// where fd is negative, of private memory, which moves to addr. It returns 0 or an errno, and then
// nothing has changed.
int pvdrm_swap(uint64_t addr, uint64_t n, int fd, uint64_t off, uint64_t to);

// pvdrm_can_swap returns 0, or the errno of what pvdrm_swap needs.
int pvdrm_can_swap(void);

struct pvdrm_range { uint64_t a, b; };

// pvdrm_children sets what a child of fork gets a private copy of: all mappings of files, each a
// device and an inode, but for those that lie inside of the library's own ranges, which begin at a and
// end at b. It returns 0 or an errno.
int pvdrm_children(const struct pvdrm_range *files, size_t n_files, const struct pvdrm_range *own, size_t n_own);

#endif

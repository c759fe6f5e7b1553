/*
 * What PVDRM's driver serves of the DRM core, for programs that are built where
 * libdrm's drm.h is not installed. Names and layouts are those of drm.h; include
 * that one or this one.
 */
#ifndef PVDRM_DRM_CORE_H
#define PVDRM_DRM_CORE_H

#ifndef _DRM_H_ /* drm.h has been included */

#include <linux/ioctl.h>
#include <linux/types.h>
#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

struct drm_version {
	int version_major;
	int version_minor;
	int version_patchlevel;
	size_t name_len; /* in: room; out: length, of this and the others */
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc; /* the device's name */
};

struct drm_gem_close {
	__u32 handle;
	__u32 pad;
};

#define DRM_CAP_DUMB_BUFFER         0x1
#define DRM_CAP_PRIME               0x5
#define DRM_PRIME_CAP_IMPORT        0x1
#define DRM_PRIME_CAP_EXPORT        0x2
#define DRM_CAP_TIMESTAMP_MONOTONIC 0x6
#define DRM_CAP_SYNCOBJ             0x13
#define DRM_CAP_SYNCOBJ_TIMELINE    0x14

struct drm_get_cap {
	__u64 capability;
	__u64 value; /* out */
};

struct drm_prime_handle {
	__u32 handle; /* out of PRIME_FD_TO_HANDLE */
	__u32 flags;  /* O_CLOEXEC, O_RDWR */
	__s32 fd;     /* out of PRIME_HANDLE_TO_FD */
};

#define DRM_SYNCOBJ_CREATE_SIGNALED (1 << 0)

struct drm_syncobj_create {
	__u32 handle; /* out */
	__u32 flags;
};

struct drm_syncobj_destroy {
	__u32 handle;
	__u32 pad;
};

#define DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL        (1 << 0)
#define DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT (1 << 1)

struct drm_syncobj_wait {
	__u64 handles;      /* __u32[] */
	__s64 timeout_nsec; /* absolute, CLOCK_MONOTONIC */
	__u32 count_handles;
	__u32 flags;
	__u32 first_signaled; /* out */
	__u32 pad;
	__u64 deadline_nsec; /* ignored */
};

struct drm_syncobj_array {
	__u64 handles; /* __u32[] */
	__u32 count_handles;
	__u32 pad;
};

#define DRM_IOCTL_VERSION            _IOWR('d', 0x00, struct drm_version)
#define DRM_IOCTL_GEM_CLOSE          _IOW('d', 0x09, struct drm_gem_close)
#define DRM_IOCTL_GET_CAP            _IOWR('d', 0x0c, struct drm_get_cap)
#define DRM_IOCTL_PRIME_HANDLE_TO_FD _IOWR('d', 0x2d, struct drm_prime_handle)
#define DRM_IOCTL_PRIME_FD_TO_HANDLE _IOWR('d', 0x2e, struct drm_prime_handle)
#define DRM_IOCTL_SYNCOBJ_CREATE     _IOWR('d', 0xbf, struct drm_syncobj_create)
#define DRM_IOCTL_SYNCOBJ_DESTROY    _IOWR('d', 0xc0, struct drm_syncobj_destroy)
#define DRM_IOCTL_SYNCOBJ_WAIT       _IOWR('d', 0xc3, struct drm_syncobj_wait)
#define DRM_IOCTL_SYNCOBJ_RESET      _IOWR('d', 0xc4, struct drm_syncobj_array)
#define DRM_IOCTL_SYNCOBJ_SIGNAL     _IOWR('d', 0xc5, struct drm_syncobj_array)

#if defined(__cplusplus)
}
#endif

#endif /* _DRM_H_ */

#endif /* PVDRM_DRM_CORE_H */

// Tells what started the program what PVDRM lacked for it: Go's package internal/missing, in C.
#ifndef PVDRM_MISSING_H
#define PVDRM_MISSING_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// tell_missing sends "name: error: why" as one datagram to the socket that PVDRM_MISSING names. It
// does not wait; what does not arrive is lost. errno stays.
static inline void tell_missing(const char *name, const char *error, const char *why)
{
	const char *parts[] = {name, ": ", error, ": ", why}, *address = getenv("PVDRM_MISSING");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t bytes = address ? strlen(address) : 0, n = 0;
	char text[400];
	if (bytes == 0 || bytes >= sizeof to.sun_path)
		return;
	int before = errno;
	memcpy(to.sun_path, address, bytes);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
	if (address[0] == '@')
		to.sun_path[0] = 0; // an abstract address
	else
		length++;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		for (const char *p = parts[i]; *p && n < sizeof text; p++)
			text[n++] = *p;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		ssize_t ignored = sendto(fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, length);
		(void)ignored;
		close(fd);
	}
	errno = before;
}

#endif

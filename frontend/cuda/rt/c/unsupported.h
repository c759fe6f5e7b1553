// An entry point that PVDRM does not have. Its arguments are not looked at.
#ifndef PVDRM_CUDART_UNSUPPORTED_H
#define PVDRM_CUDART_UNSUPPORTED_H

#include "cudart.h"

#define UNSUPPORTED(name) \
	PUBLIC int name(void) { return done(#name, say(NOT_SUPPORTED, "PVDRM has no such function")); }

#endif

/* echo: a server that returns what it receives. */
#pragma once
#include "base.h"

FN void echoCopy(const u8 *from, u8 *to, u32 n) {
	for (u32 i = thread(); i < n; i += threads())
		to[i] = from[i];
}

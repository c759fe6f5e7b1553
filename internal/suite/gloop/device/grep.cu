#include "grep.h"

/* Where a file's text lies, and which part of it the words begin in. */
struct GrepPart { u32 at, from, to, n; };

/* A block for each part of the texts. */
KERNEL grep(Grep p, const u8 *text, const GrepPart *parts) {
	GrepPart part = parts[block()];
	grepText(p, text + part.at, part.from, part.to, part.n);
}

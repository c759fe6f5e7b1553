#include "mummergpu.h"

/* A thread for each query matches its places first to last - 1. */
KERNEL mummer_match(Mummer p, u32 first, u32 last) {
	u32 query = block() * threads() + thread();
	if (query >= p.queryCount)
		return;
	for (u32 place = first; place < least(last, p.queryLength); place++)
		mummerMatch(p, query, place);
}

/* A thread for each place of a query, from a block of them on. */
KERNEL mummer_print(Mummer p, u32 first) { mummerPrint(p, (first + block()) * threads() + thread()); }

/*
 * mummergpu: matches queries with a reference by the reference's suffix array. For
 * each place of a query the match kernel finds the longest prefix that occurs in the
 * reference; the print kernel writes down where it occurs.
 */
#pragma once
#include "base.h"

#define MUMMER_MOST 8 /* occurrences of a match that are printed */

struct Match { u32 length, first, last; }; /* suffixes first to last - 1 begin with it */

struct Mummer {
	const u8 *reference;
	const u32 *suffixes; /* sorted */
	u32 referenceLength;
	const u8 *queries;   /* each of queryLength */
	u32 queryCount, queryLength, least; /* of the length of a match */
	Match *matches;      /* a place of a query after another */
	u32 *printed;        /* of each place: the number of occurrences, then MUMMER_MOST places */
};

FN Mummer known(Mummer p) {
	p.reference = global(p.reference), p.suffixes = global(p.suffixes), p.queries = global(p.queries);
	p.matches = global(p.matches), p.printed = global(p.printed);
	return p;
}

/* The first of suffixes lo to hi - 1 whose character at depth is at least c. */
FN u32 mummerBound(const Mummer &p, u32 lo, u32 hi, u32 depth, int c) {
	while (lo < hi) {
		u32 mid = (lo + hi) / 2, at = p.suffixes[mid] + depth;
		int have = at < p.referenceLength ? p.reference[at] : -1;
		if (have < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Finds the longest match at a place of a query. */
FN void mummerMatch(const Mummer &p, u32 query, u32 place) {
	const u8 *text = p.queries + query * p.queryLength;
	Match m = {0, 0, p.referenceLength};
	for (u32 at = place; at < p.queryLength; at++) {
		u32 first = mummerBound(p, m.first, m.last, m.length, text[at]);
		u32 last = mummerBound(p, first, m.last, m.length, text[at] + 1);
		if (first == last)
			break;
		m.first = first, m.last = last;
		m.length++;
	}
	p.matches[query * p.queryLength + place] = m;
}

/* Writes down where the match of a place occurs, if it is long enough. */
FN void mummerPrint(const Mummer &p, u32 at) {
	if (at >= p.queryCount * p.queryLength)
		return;
	Match m = p.matches[at];
	u32 *out = p.printed + at * (1 + MUMMER_MOST);
	out[0] = m.length < p.least ? 0 : m.last - m.first;
	for (u32 i = 0; i < least(out[0], MUMMER_MOST); i++)
		out[1 + i] = p.suffixes[m.first + i];
}

FN u32 mummerPrintBlocks(const Mummer &p) { return (p.queryCount * p.queryLength + threads() - 1) / threads(); }

/*
 * grep: counts the words of a list in texts. A word is a run of letters, digits and
 * underscores; it counts where one begins. Words lie in a hash table.
 */
#pragma once
#include "base.h"

#define GREP_LONGEST 32 /* bytes of a word of the list */

struct Grep {
	const u32 *table; /* open addressing: the number of a word plus 1, or 0 */
	u32 tableMask;
	const u8 *words;  /* each of GREP_LONGEST bytes, zeros after its end */
	u32 *counts;      /* of each word */
};

FN Grep known(Grep p) {
	p.table = global(p.table), p.words = global(p.words), p.counts = global(p.counts);
	return p;
}

FN bool grepLetter(u8 c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/*
 * Counts words that begin in [from, to) of a text of n bytes. Bytes before from tell
 * whether a word begins there, bytes from to on where it ends. It returns how many it found.
 */
FN u32 grepText(const Grep &p, const u8 *text, u32 from, u32 to, u32 n) {
	u32 found = 0;
	for (u32 at = from + thread(); at < to; at += threads()) {
		if (!grepLetter(text[at]) || (at > 0 && grepLetter(text[at - 1])))
			continue;
		u32 hash = 2166136261u, length = 0;
		while (at + length < n && length <= GREP_LONGEST && grepLetter(text[at + length]))
			hash = (hash ^ text[at + length++]) * 16777619u;
		if (length > GREP_LONGEST)
			continue;
		for (u32 slot = hash & p.tableMask; p.table[slot]; slot = (slot + 1) & p.tableMask) {
			u32 word = p.table[slot] - 1, i = 0;
			const u8 *w = p.words + word * GREP_LONGEST;
			while (i < length && w[i] == text[at + i])
				i++;
			if (i < length || (length < GREP_LONGEST && w[length]))
				continue;
			atomicPlus(&p.counts[word], 1u);
			found++;
			break;
		}
	}
	return found;
}

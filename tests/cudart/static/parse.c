// Gives find_runtime an ELF file with bytes changed and its end cut off: parse FILE
// reads lines "LENGTH OFFSET VALUE ..." and prints how many functions were found in each. The
// sanitizers end it where a byte outside is read.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../frontend/cuda/rt/static/runtime.h"

int main(int argc, char **argv)
{
	static char line[1 << 16];
	FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
	if (!f || fseek(f, 0, SEEK_END))
		return 2;
	size_t bytes = (size_t)ftell(f);
	unsigned char *file = malloc(bytes);
	rewind(f);
	if (!file || fread(file, 1, bytes, f) != bytes)
		return 2;
	fclose(f);
	while (fgets(line, sizeof line, stdin)) {
		char *at = line;
		size_t n = strtoul(at, &at, 10);
		if (n > bytes)
			return 2;
		unsigned char *copy = malloc(n ? n : 1);
		if (!copy)
			return 2;
		memcpy(copy, file, n);
		for (char *end;; at = end) {
			size_t offset = strtoul(at, &end, 10);
			if (end == at)
				break;
			unsigned char value = (unsigned char)strtoul(end, &end, 10);
			if (offset < n)
				copy[offset] = value;
		}
		struct runtime r = {0};
		int found = find_runtime(copy, n, &r);
		for (size_t i = 0; i < r.n; i++) // what redirect reads
			if (r.functions[i].offset + r.functions[i].bytes > n || strlen(r.functions[i].name) < 5)
				return 3;
		printf("%d %d %zu\n", found, r.major, r.n);
		free(r.functions);
		free(copy);
	}
	free(file);
	return 0;
}

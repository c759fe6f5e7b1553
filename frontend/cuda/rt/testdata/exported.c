// Looks for a function in an ELF file with bytes changed and its end cut off: exported FILE reads lines
// "LENGTH OFFSET VALUE ..." and prints whether each still has it. The sanitizers end it where a byte
// outside is read.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../static/runtime.h"

int main(int argc, char **argv)
{
	static unsigned char file[1 << 20];
	static char line[1 << 16];
	FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
	size_t bytes = f ? fread(file, 1, sizeof file, f) : 0;
	if (!bytes || bytes == sizeof file)
		return 2;
	fclose(f);
	while (fgets(line, sizeof line, stdin)) {
		char *at = line;
		size_t n = strtoul(at, &at, 10);
		unsigned char *copy = n <= bytes ? malloc(n ? n : 1) : NULL;
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
		struct exported x;
		size_t next = 0, again = 0;
		int found = find_exported(copy, n, "nvrtcCompileProgram", &next, &x);
		if (found && (!find_exported(copy, n, "nvrtcC*", &again, &x) || again > next))
			return 3;
		printf("%d\n", found);
		free(copy);
	}
	return 0;
}

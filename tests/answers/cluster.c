// Asks libcuda.so.1 how launches, kernels, graphs and occupancy take clusters of blocks. README.md
// says how to record the answers. Its argument is cluster.ptx.
#include "cluster.h"

static void asked(void (*questions)(void))
{
	int status;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		start();
		questions();
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		printf("ended-by %d\n", status);
}

int main(int argc, char **argv)
{
	FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
	if (!f || fread(source, 1, sizeof source - 1, f) == 0) {
		fprintf(stderr, "usage: cluster cluster.ptx\n");
		return 2;
	}
	fclose(f);
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	asked(attributes);
	asked(set_clusters);
	asked(sizes);
	asked(options);
	asked(directives);
	asked(occupancies);
	asked(nodes);
	asked(captures);
	for (probed = 0; probed < 15; probed++)
		asked(probe);
	return 0;
}

// Steps of training that a program of llm.c does on random tokens: forward and backward, timed. It is included
// behind llm.c's own source. The program takes a checkpoint, the number of steps, and the file for its gradients.
#include <stdint.h>

enum { B = 4, T = 64 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

// Every so many gradients are written, and the sum of all squares.
enum { EVERY = 101 };

static void write_gradients(const char *path, const float *gradients, size_t n)
{
	FILE *f = fopenCheck(path, "wb");
	double squares = 0;
	for (size_t i = 0; i < n; i++)
		squares += (double)gradients[i] * gradients[i];
	fwrite(&squares, sizeof squares, 1, f);
	for (size_t i = 0; i < n; i += EVERY)
		fwrite(&gradients[i], sizeof *gradients, 1, f);
	fcloseCheck(f);
}

static void synchronize(void);
static void gradients_of(GPT2 *model, float *to);

int main(int argc, char **argv)
{
	static GPT2 model;
	static int tokens[B * T + 1];
	uint32_t seed = 1;

	if (argc != 4) {
		fprintf(stderr, "usage: %s CHECKPOINT STEPS GRADIENTS\n", argv[0]);
		return 2;
	}
	gpt2_build_from_checkpoint(&model, argv[1]);
	for (int i = 0; i <= B * T; i++) {
		seed = seed * 1664525 + 1013904223;
		tokens[i] = (seed >> 8) % model.config.vocab_size;
	}
	for (int step = 0; step < atoi(argv[2]); step++) {
		gpt2_zero_grad(&model);
		synchronize();
		clock_t before = clock();
		double begin = now();
		gpt2_forward(&model, tokens, tokens + 1, B, T);
		synchronize();
		double middle = now();
		gpt2_backward(&model);
		synchronize();
		double end = now();
		printf("step %d: loss %.6f, forward %.4f s, backward %.4f s, both %.4f s, of the processor's time %.4f s\n", step, model.mean_loss,
			middle - begin, end - middle, end - begin, (clock() - before) / (double)CLOCKS_PER_SEC);
		fflush(stdout);
	}
	float *gradients = (float *)mallocCheck(model.num_parameters * sizeof(float));
	gradients_of(&model, gradients);
	write_gradients(argv[3], gradients, model.num_parameters);
	free(gradients);
	gpt2_free(&model);
	return 0;
}

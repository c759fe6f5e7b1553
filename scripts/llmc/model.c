// Makes a checkpoint of GPT-2 with random weights, and compares gradients that two programs have written.
//
//	model random CHECKPOINT LAYERS    12 layers are GPT-2 124M
//	model compare GRADIENTS GRADIENTS
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_T = 1024, V = 50257, PADDED = 50304, HEADS = 12, C = 768 };

static uint32_t seed = 7;

// weight is one of about normal distribution, with a standard deviation of 0.02.
static float weight(void)
{
	int sum = 0;
	for (int i = 0; i < 4; i++) {
		seed = seed * 1664525 + 1013904223;
		sum += (int)(seed >> 16) - 32768;
	}
	return sum * (0.02f / 37837);
}

static void write_tensor(FILE *f, size_t n, float ones, int noise)
{
	for (size_t i = 0; i < n; i++) {
		float x = ones + (noise ? weight() : 0);
		if (fwrite(&x, sizeof x, 1, f) != 1) {
			perror("checkpoint");
			exit(1);
		}
	}
}

static int random_model(const char *path, int layers)
{
	size_t n = layers;
	int header[256] = {20240326, 3, MAX_T, V, layers, HEADS, C, PADDED};
	FILE *f = fopen(path, "wb");
	if (f == NULL || fwrite(header, sizeof header, 1, f) != 1) {
		perror(path);
		return 1;
	}
	write_tensor(f, (size_t)V * C, 0, 1);              // wte
	write_tensor(f, (size_t)(PADDED - V) * C, 0, 0); // its padding, for which the programs count on zeros
	write_tensor(f, (size_t)MAX_T * C, 0, 1);  // wpe
	write_tensor(f, n * C, 1, 1);              // ln1w
	write_tensor(f, n * C, 0, 1);              // ln1b
	write_tensor(f, n * 3 * C * C, 0, 1);      // qkvw
	write_tensor(f, n * 3 * C, 0, 1);          // qkvb
	write_tensor(f, n * C * C, 0, 1);          // attprojw
	write_tensor(f, n * C, 0, 1);              // attprojb
	write_tensor(f, n * C, 1, 1);              // ln2w
	write_tensor(f, n * C, 0, 1);              // ln2b
	write_tensor(f, n * 4 * C * C, 0, 1);      // fcw
	write_tensor(f, n * 4 * C, 0, 1);          // fcb
	write_tensor(f, n * 4 * C * C, 0, 1);      // fcprojw
	write_tensor(f, n * C, 0, 1);              // fcprojb
	write_tensor(f, C, 1, 1);                  // lnfw
	write_tensor(f, C, 0, 1);                  // lnfb
	if (fclose(f) != 0) {
		perror(path);
		return 1;
	}
	return 0;
}

// Gradients may be this far apart: the distance as a part of their length. Orders of sums and approximations differ.
static const double most = 1e-3;

static int compare(const char *one, const char *other)
{
	FILE *f[2] = {fopen(one, "rb"), fopen(other, "rb")};
	double squares[2], distance = 0, length = 0;
	float x[2];
	long n = 0;
	for (int i = 0; i < 2; i++)
		if (f[i] == NULL || fread(&squares[i], sizeof squares[i], 1, f[i]) != 1) {
			perror(i == 0 ? one : other);
			return 1;
		}
	for (;; n++) {
		size_t left = fread(&x[0], sizeof x[0], 1, f[0]), right = fread(&x[1], sizeof x[1], 1, f[1]);
		if (left != right) {
			fprintf(stderr, "%s and %s have different numbers of gradients\n", one, other);
			return 1;
		}
		if (left == 0)
			break;
		distance += ((double)x[0] - x[1]) * ((double)x[0] - x[1]);
		length += (double)x[0] * x[0];
	}
	double apart = sqrt(distance / length), norms = fabs(sqrt(squares[0] / squares[1]) - 1);
	int same = n > 0 && apart <= most && norms <= most;
	printf("%ld gradients: %.2g of their length apart, norms %.6g and %.6g: %s\n", n, apart, sqrt(squares[0]), sqrt(squares[1]), same ? "equal" : "DIFFERENT");
	return !same;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "random") == 0)
		return random_model(argv[2], atoi(argv[3]));
	if (argc == 4 && strcmp(argv[1], "compare") == 0)
		return compare(argv[2], argv[3]);
	fprintf(stderr, "usage: %s random CHECKPOINT LAYERS | compare GRADIENTS GRADIENTS\n", argv[0]);
	return 2;
}

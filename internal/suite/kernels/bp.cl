#include "pvdrm.h"

/*
 * One training step of a network with n inputs, HIDDEN hidden units and one
 * output: forward pass, error, and new weights, with the sigmoid as activation.
 *
 * The weights between input and hidden layer are rows of HIDDEN floats, one row
 * for each input and a last one for the bias, whose input is 1. The weights to
 * the output are HIDDEN floats and the bias. `delta` arrays hold the last change
 * of each weight, for the momentum.
 */

#define HIDDEN 16
#define QUADS (HIDDEN / 4)
#define SLICES 64 /* threads that share one quad of hidden units */
#define ROWS 8    /* inputs that one thread adds up */

/* What bp_hidden leaves behind, in floats. */
#define ACTIVE 0       /* activations of the hidden units */
#define ERROR HIDDEN   /* error terms of the hidden units */
#define OUT (2 * HIDDEN)
#define OUT_ERROR (2 * HIDDEN + 1)

static inline float sigmoid(float x)
{
	return 1.0f / (1.0f + EX2(-x * LOG2_E));
}

/* One block adds up inputs times weights over SLICES * ROWS inputs. */
__kernel void bp_forward(__global const float *in, __global const float4 *weight, __global float4 *partial)
{
	__local float4 sum[SLICES][QUADS];

	SHARED(sum);

	uint quad = TX % QUADS, slice = TX / QUADS;
	uint row = BX * (SLICES * ROWS) + slice;
	float4 s = 0;

#pragma unroll
	for (uint r = 0; r < ROWS; r++)
		s += in[row + r * SLICES] * weight[(row + r * SLICES) * QUADS + quad];
	sum[slice][quad] = s;
	for (uint reach = SLICES / 2; reach > 0; reach /= 2) {
		BARRIER();
		if (slice < reach) {
			s += sum[slice + reach][quad];
			sum[slice][quad] = s;
		}
	}
	if (slice == 0)
		partial[BX * QUADS + quad] = s;
}

/* One block of HIDDEN threads finishes the forward pass, and trains the output unit. */
__kernel void bp_hidden(__global const float *partial, uint parts, __global const float *bias,
			__global float *weight, __global float *delta, __global float *state,
			float target, float rate, float momentum)
{
	__local float active[HIDDEN];
	__local float error[1];

	SHARED(active);
	SHARED(error);

	uint j = TX;
	float s = bias[j];
	float w = weight[j];

	for (uint p = 0; p < parts; p++)
		s += partial[p * HIDDEN + j];

	float h = sigmoid(s);

	active[j] = h;
	state[ACTIVE + j] = h;
	BARRIER();

	if (j == 0) {
		float o = weight[HIDDEN];

		for (uint i = 0; i < HIDDEN; i++)
			o += active[i] * weight[i];
		o = sigmoid(o);
		error[0] = o * (1.0f - o) * (target - o);
		state[OUT] = o;
		state[OUT_ERROR] = error[0];

		float d = rate * error[0] + momentum * delta[HIDDEN];

		weight[HIDDEN] += d;
		delta[HIDDEN] = d;
	}
	BARRIER();

	float d = rate * error[0] * h + momentum * delta[j];

	state[ERROR + j] = h * (1.0f - h) * error[0] * w;
	weight[j] = w + d;
	delta[j] = d;
}

/* Each thread changes four weights between one input and the hidden layer. */
__kernel void bp_adjust(__global const float *in, __global float4 *weight, __global float4 *delta,
			__global const float4 *error, uint rows, float rate, float momentum)
{
	uint i = GX;
	uint row = i / QUADS;

	if (row >= rows)
		return;

	float4 d = rate * in[row] * error[i % QUADS] + momentum * delta[i];

	weight[i] += d;
	delta[i] = d;
}

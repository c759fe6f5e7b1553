// Questions about tensor maps: which parameters cuTensorMapEncodeTiled and its like take.
#pragma once
#include "ask.h"

// map has the parameters of a tensor map; box of im2col is the channels and the pixels.
struct map {
	u64 type, rank, address, dim[6], stride[6];
	unsigned box[6], step[6];
	int lower[4], upper[4];
	u64 interleave, swizzle, promotion, fill;
	int no_dim, no_stride, no_box, no_step, no_map, offset; // pointers that are missing, and how far the map lies off
};

static const struct map plain = {
	.type = 2, .rank = 2, .dim = {64, 64, 8, 8, 8, 8}, .stride = {256, 16384, 131072, 1048576, 8388608},
	.box = {16, 8, 2, 2, 2, 2}, .step = {1, 1, 1, 1, 1, 1},
};

static const struct map pixels = {
	.type = 6, .rank = 4, .dim = {64, 16, 16, 4, 4, 4}, .stride = {128, 2048, 32768, 131072, 524288},
	.box = {32, 64}, .step = {1, 1, 1, 1, 1, 1},
};

static unsigned char room[512] __attribute__((aligned(128)));
static u64 tensor_memory;

static int tiled(struct map m)
{
	u64 address = m.address == 1 ? 0 : tensor_memory + m.address;
	return CALL(cuTensorMapEncodeTiled, m.no_map ? NULL : room + m.offset, m.type, m.rank, address, m.no_dim ? NULL : m.dim,
		m.no_stride ? NULL : m.stride, m.no_box ? NULL : m.box, m.no_step ? NULL : m.step, m.interleave, m.swizzle, m.promotion, m.fill);
}

static int im2col(struct map m)
{
	u64 address = m.address == 1 ? 0 : tensor_memory + m.address;
	return CALL(cuTensorMapEncodeIm2col, m.no_map ? NULL : room + m.offset, m.type, m.rank, address, m.no_dim ? NULL : m.dim,
		m.no_stride ? NULL : m.stride, m.no_box ? NULL : m.lower, m.no_box ? NULL : m.upper, m.box[0], m.box[1],
		m.no_step ? NULL : m.step, m.interleave, m.swizzle, m.promotion, m.fill);
}

#define TILED(question, ...) do { struct map m = plain; __VA_ARGS__; ASK("tiled-" question, tiled(m)); } while (0)
#define IM2COL(question, ...) do { struct map m = pixels; __VA_ARGS__; ASK("im2col-" question, im2col(m)); } while (0)

// asked prints a question with a number in it.
static void asked(const char *what, long long n, int answer) { printf("%s-%lld %d\n", what, n, answer); }

static void tiled_sizes(void)
{
	TILED("plain", (void)0);
	for (int type = -1; type < 18; type++) {
		struct map m = plain;
		m.type = (unsigned)type;
		asked("tiled-type", type, tiled(m));
		m.fill = 1;
		asked("tiled-nan-type", type, tiled(m));
	}
	for (int rank = 0; rank < 7; rank++) {
		struct map m = plain;
		m.rank = rank;
		asked("tiled-rank", rank, tiled(m));
		m.interleave = 1, m.box[0] = 4;
		asked("tiled-interleaved-rank", rank, tiled(m));
	}
	TILED("rank-1-without-strides", m.rank = 1, m.no_stride = 1);
	TILED("null-address", m.address = 1);
	for (int off = 4; off < 64; off *= 2) {
		struct map m = plain;
		m.address = off;
		asked("tiled-address-off", off, tiled(m));
		m.rank = 3, m.interleave = 1, m.box[0] = 4;
		asked("tiled-address-off-16B", off, tiled(m));
		m.interleave = 2, m.box[0] = 8, m.swizzle = 1;
		asked("tiled-address-off-32B", off, tiled(m));
	}
	TILED("address-far", m.address = (1ull << 57) - tensor_memory);
	TILED("address-top", m.address = -16 - tensor_memory);
	TILED("address-nowhere", m.address = (1ull << 46) - tensor_memory);
	TILED("dim-0", m.dim[0] = 0);
	TILED("dim-1-is-0", m.dim[1] = 0);
	TILED("dim-2-is-0", m.dim[2] = 0);
	TILED("dim-1", m.dim[0] = 1);
	TILED("dim-odd", m.dim[0] = 63);
	TILED("dim-max", m.dim[1] = 1ull << 32);
	TILED("dim-over", m.dim[1] = (1ull << 32) + 1);
	TILED("dim-0-max", m.dim[0] = 1ull << 32, m.stride[0] = 1ull << 34);
	TILED("dim-0-over", m.dim[0] = (1ull << 32) + 1, m.stride[0] = 1ull << 35);
	TILED("dim-0-over-stride", m.dim[0] = 65);
	TILED("stride-8", m.stride[0] = 264);
	TILED("stride-0", m.stride[0] = 0);
	TILED("stride-16", m.stride[0] = 16);
	TILED("stride-of-32B", m.rank = 3, m.interleave = 2, m.swizzle = 1, m.stride[0] = 272);
	TILED("stride-1-of-32B", m.rank = 3, m.interleave = 2, m.swizzle = 1, m.stride[1] = 16400);
	TILED("stride-max", m.stride[0] = (1ull << 40) - 16);
	TILED("stride-over", m.stride[0] = 1ull << 40);
	TILED("stride-falls", m.rank = 3, m.stride[1] = 128);
	TILED("stride-1-of-3-is-0", m.rank = 3, m.stride[1] = 0);
	TILED("stride-that-does-not-count", m.rank = 2, m.stride[1] = 7);
}

static void tiled_boxes(void)
{
	TILED("box-0", m.box[0] = 0);
	TILED("box-1-is-0", m.box[1] = 0);
	TILED("box-256", m.box[0] = 256);
	TILED("box-257", m.box[0] = 257, m.type = 0);
	TILED("box-260", m.box[0] = 260);
	TILED("box-1-is-256", m.box[1] = 256);
	TILED("box-1-is-257", m.box[1] = 257);
	TILED("box-8-bytes", m.box[0] = 2);
	TILED("box-20-bytes", m.box[0] = 5);
	TILED("box-beyond", m.dim[0] = 4, m.dim[1] = 2);
	TILED("box-256-256", m.box[0] = m.box[1] = 256);
	TILED("box-256-256-256", m.rank = 3, m.box[0] = m.box[1] = m.box[2] = 256);
	TILED("box-256-228", m.box[0] = 256, m.box[1] = 228);
	TILED("box-256-229", m.box[0] = 256, m.box[1] = 229);
	TILED("box-half-of-115", m.type = 0, m.rank = 3, m.box[0] = 256, m.box[1] = 16, m.box[2] = 115, m.step[2] = 2);
	TILED("box-half-of-116", m.type = 0, m.rank = 3, m.box[0] = 256, m.box[1] = 16, m.box[2] = 116, m.step[2] = 2);
	TILED("box-of-f64-256", m.type = 8, m.box[0] = 256);
	for (int swizzle = -1; swizzle < 8; swizzle++)
		for (int elements = 4; elements <= 64; elements *= 2) {
			struct map m = plain;
			m.swizzle = (unsigned)swizzle, m.box[0] = elements;
			printf("tiled-swizzle-%d-of-%d %d\n", swizzle, 4 * elements, tiled(m));
		}
	TILED("swizzle-32-of-36", m.swizzle = 1, m.box[0] = 9);
	TILED("swizzle-32-of-48", m.swizzle = 1, m.box[0] = 12);
	for (int interleave = -1; interleave < 4; interleave++)
		for (int swizzle = 0; swizzle < 4; swizzle++)
			for (int elements = 2; elements <= 64; elements *= 2) {
				struct map m = plain;
				m.rank = 3, m.interleave = (unsigned)interleave, m.swizzle = swizzle, m.box[0] = elements;
				printf("tiled-interleave-%d-swizzle-%d-of-%d %d\n", interleave, swizzle, 4 * elements, tiled(m));
			}
	TILED("interleave-box-3", m.rank = 3, m.interleave = 1, m.box[0] = 3);
	TILED("interleave-dim-1", m.rank = 3, m.interleave = 1, m.dim[0] = 1);
	TILED("interleave-dim-over-stride", m.rank = 3, m.interleave = 1, m.stride[0] = 16);
	for (int n = -1; n < 6; n++) {
		struct map m = plain;
		m.promotion = (unsigned)n;
		asked("tiled-promotion", n, tiled(m));
		m = plain;
		m.type = 7, m.fill = (unsigned)n;
		asked("tiled-fill", n, tiled(m));
	}
	for (int n = 0; n < 11; n++) {
		struct map m = plain;
		m.step[1] = n;
		asked("tiled-step-1", n, tiled(m));
		m = plain;
		m.step[0] = n;
		asked("tiled-step-0", n, tiled(m));
		m = plain;
		m.rank = 3, m.interleave = 1, m.box[0] = 4, m.step[0] = n;
		asked("tiled-interleaved-step-0", n, tiled(m));
	}
	TILED("step-256-of-box-256", m.step[1] = 8, m.box[1] = 256);
}

static void pointers_of_maps(void)
{
	for (int off = 0; off <= 64; off += 8) {
		struct map m = plain;
		m.offset = off;
		asked("tiled-map-off", off, tiled(m));
		m = pixels;
		m.offset = off;
		asked("im2col-map-off", off, im2col(m));
	}
	TILED("no-map", m.no_map = 1);
	TILED("no-dims", m.no_dim = 1);
	TILED("no-strides", m.no_stride = 1);
	TILED("no-box", m.no_box = 1);
	TILED("no-steps", m.no_step = 1);
	IM2COL("no-map", m.no_map = 1);
	IM2COL("no-dims", m.no_dim = 1);
	IM2COL("no-strides", m.no_stride = 1);
	IM2COL("no-corners", m.no_box = 1);
	IM2COL("no-steps", m.no_step = 1);
	TILED("again", (void)0);
	ASK("replace-address", CALL(cuTensorMapReplaceAddress, room, tensor_memory + 64));
	ASK("replace-address-off-8", CALL(cuTensorMapReplaceAddress, room, tensor_memory + 8));
	ASK("replace-address-null", CALL(cuTensorMapReplaceAddress, room, NULL));
	ASK("replace-address-of-no-map", CALL(cuTensorMapReplaceAddress, NULL, tensor_memory));
	ASK("replace-address-of-map-off-32", CALL(cuTensorMapReplaceAddress, room + 32, tensor_memory));
	TILED("interleaved-again", m.rank = 3, m.interleave = 2, m.swizzle = 1, m.box[0] = 8);
	ASK("replace-address-off-16-of-32B", CALL(cuTensorMapReplaceAddress, room, tensor_memory + 16));
	memset(room, 0, sizeof room);
	ASK("replace-address-of-zeros", CALL(cuTensorMapReplaceAddress, room, tensor_memory));
	memset(room, 0xff, sizeof room);
	ASK("replace-address-of-ones", CALL(cuTensorMapReplaceAddress, room, tensor_memory));
}

static void im2col_maps(void)
{
	static const int edges[][2] = {{0, 0}, {-1, -1}, {-128, 0}, {-129, 0}, {127, 0}, {128, 0}, {0, 127}, {0, 128}, {0, -128}, {0, -129},
		{0, -15}, {0, -16}, {8, -8}, {8, -7}, {16, 0}, {15, 0}, {-16, 0}, {-17, 0}, {0, 15}, {0, 16}, {-32768, 0}, {-32769, 0}, {0, 32767}, {0, 32768}, {-3, -20}, {15, -15}, {100, -100}};
	IM2COL("plain", (void)0);
	for (int rank = 0; rank < 7; rank++) {
		struct map m = pixels;
		m.rank = rank;
		asked("im2col-rank", rank, im2col(m));
	}
	for (size_t n = 0; n < sizeof edges / sizeof *edges; n++)
		for (int rank = 3; rank <= 5; rank++)
			for (int axis = 0; axis < rank - 2; axis++) {
				struct map m = pixels;
				m.rank = rank, m.lower[axis] = edges[n][0], m.upper[axis] = edges[n][1];
				printf("im2col-corners-%d-%d-of-%d-%d %d\n", edges[n][0], edges[n][1], rank, axis, im2col(m));
			}
	static const int channels[] = {0, 1, 4, 7, 8, 12, 16, 64, 128, 248, 256, 257, 264};
	for (size_t n = 0; n < sizeof channels / sizeof *channels; n++) {
		struct map m = pixels;
		m.box[0] = channels[n];
		asked("im2col-channels", channels[n], im2col(m));
		for (int swizzle = 1; swizzle < 4; swizzle++) {
			m.swizzle = swizzle;
			printf("im2col-swizzle-%d-of-%d %d\n", swizzle, channels[n], im2col(m));
		}
		m.swizzle = 0, m.interleave = 1;
		asked("im2col-interleaved-channels", channels[n], im2col(m));
		m.swizzle = 1, m.interleave = 2;
		asked("im2col-32B-channels", channels[n], im2col(m));
	}
	static const int columns[] = {0, 1, 7, 1023, 1024, 1025};
	for (size_t n = 0; n < sizeof columns / sizeof *columns; n++) {
		struct map m = pixels;
		m.box[1] = columns[n];
		asked("im2col-pixels", columns[n], im2col(m));
	}
	for (int n = 0; n < 11; n++)
		for (int axis = 0; axis < 4; axis++) {
			struct map m = pixels;
			m.step[axis] = n;
			printf("im2col-step-%d-is-%d %d\n", axis, n, im2col(m));
		}
	IM2COL("column-456", m.box[0] = 256, m.box[1] = 456);
	IM2COL("column-457", m.box[0] = 256, m.box[1] = 457);
	IM2COL("type-13", m.type = 13);
	IM2COL("address-off-8", m.address = 8);
	IM2COL("dim-0", m.dim[2] = 0);
	IM2COL("stride-8", m.stride[1] = 2056);
	IM2COL("stride-small", m.stride[0] = 16);
	IM2COL("fill", m.fill = 1);
	IM2COL("fill-of-integers", m.fill = 1, m.type = 1);
	IM2COL("fill-2", m.fill = 2);
	IM2COL("promotion-4", m.promotion = 4);
	IM2COL("swizzle-4", m.swizzle = 4);
	IM2COL("interleave-3", m.interleave = 3);
}

// tensor_maps asks with a context. Their descriptors are opaque, so results are all there is to compare.
static void tensor_maps(void)
{
	ASK("tiled-before-init", tiled(plain));
	MUST(cuInit, 0);
	ASK("tiled-without-context", tiled(plain));
	ASK("im2col-without-context", im2col(pixels));
	ASK("replace-address-without-context", CALL(cuTensorMapReplaceAddress, room, (u64)1 << 40));
	a_context();
	MUST(cuMemAlloc_v2, &tensor_memory, (u64)(1 << 20));
	tiled_sizes();
	tiled_boxes();
	pointers_of_maps();
	im2col_maps();
}

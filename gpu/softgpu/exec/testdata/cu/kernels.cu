// Kernels in the style of the CUDA samples and Rodinia, all of one signature:
// 4096 words in, 4096 words out, 8 blocks of 128 threads. Their results do not
// depend on the order of threads.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define KERNEL(name) extern "C" __global__ void name(const unsigned *in, unsigned *out, int n)
#define ID (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(shuffle_reduce) {
  float x = (int)(in[ID] & 0xffff) - 32768;
  for (int o = 16; o; o >>= 1) x += __shfl_down_sync(0xffffffff, x, o);
  __shared__ float part[4];
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    x = threadIdx.x < 4 ? part[threadIdx.x] : 0;
    for (int o = 2; o; o >>= 1) x += __shfl_xor_sync(0xffffffff, x, o);
    if (threadIdx.x == 0) out[blockIdx.x] = __float_as_uint(x);
  }
}

KERNEL(scan) {
  extern __shared__ unsigned tmp[];
  int t = threadIdx.x;
  tmp[t] = in[ID];
  for (int o = 1; o < blockDim.x; o *= 2) {
    __syncthreads();
    unsigned v = t >= o ? tmp[t - o] : 0;
    __syncthreads();
    tmp[t] += v;
  }
  out[ID] = tmp[t];
}

KERNEL(bitonic) {
  __shared__ unsigned key[128];
  int t = threadIdx.x;
  key[t] = in[ID];
  __syncthreads();
  for (int k = 2; k <= 128; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      int p = t ^ j;
      if (p > t) {
        unsigned a = key[t], b = key[p];
        if (((t & k) == 0) == (a > b)) { key[t] = b; key[p] = a; }
      }
      __syncthreads();
    }
  out[ID] = key[t];
}

__device__ unsigned collatz(unsigned long long x) {
  unsigned s = 0;
  while (x != 1 && s < 500) { x = x & 1 ? 3 * x + 1 : x >> 1; s++; }
  return s;
}
KERNEL(divergence) {
  unsigned x = in[ID] % 10007 + 1, r = 0;
  for (int i = 0; i < (int)(x % 7); i++) {
    if ((x >> i) & 1) { r += collatz(x + i); if (r % 5 == 3) continue; }
    else if (x % 3 == 0) break;
    r ^= x << i;
  }
  out[ID] = r;
}

KERNEL(switches) {
  unsigned x = in[ID], r = 17;
  for (int i = 0; i < 8; i++, x >>= 4)
    switch (x & 15) {
      case 0: r += 3; break;
      case 1: r *= 7; break;
      case 2: r ^= x;
      case 3: r -= 11; break;
      case 4: r = __brev(r); break;
      case 5: r = __popc(r) * 1234567; break;
      case 6: r = r << 3 | r >> 29; break;
      case 7: r /= 3; break;
      case 8: r %= 1001; break;
      case 9: r = __byte_perm(r, x, 0x3175); break;
      case 10: r = __clz(r) + r; break;
      default: r = r * 31 + i;
    }
  out[ID] = r;
}

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
KERNEL(recursion) { out[ID] = fib(in[ID] % 12); }

typedef unsigned (*fn)(unsigned, unsigned);
__device__ __noinline__ unsigned f_add(unsigned a, unsigned b) { return a + b; }
__device__ __noinline__ unsigned f_mul(unsigned a, unsigned b) { return a * b; }
__device__ __noinline__ unsigned f_mix(unsigned a, unsigned b) { return (a ^ b) * 2654435761u; }
__device__ fn table[3] = {f_add, f_mul, f_mix};
KERNEL(pointers) {
  unsigned r = ID;
  for (int i = 0; i < 5; i++) r = table[(in[ID] >> (4 * i)) % 3](r, in[(ID + i) % n]);
  out[ID] = r;
}

KERNEL(atomics) {
  __shared__ unsigned bins[64], most[7];
  if (threadIdx.x < 64) bins[threadIdx.x] = 0;
  if (threadIdx.x < 7) most[threadIdx.x] = 0;
  __syncthreads();
  unsigned x = in[ID];
  atomicAdd(&bins[x % 64], 1);
  atomicMax(&most[x % 7], 20 + x % 300);
  __syncthreads();
  if (threadIdx.x < 7) atomicAdd(&out[200 + threadIdx.x], most[threadIdx.x]);
  if (threadIdx.x < 64) atomicAdd(&out[threadIdx.x], bins[threadIdx.x] & 0xff);
  atomicMin((int *)&out[100], -(int)(x % 1000));
  atomicXor(&out[101], x);
  atomicOr(&out[102], 1 << (x % 32));
  unsigned long long *w = (unsigned long long *)&out[104];
  atomicAdd(w, (unsigned long long)x << 8);
  unsigned old = out[108], seen;
  do { seen = old; old = atomicCAS(&out[108], seen, seen + (x & 3)); } while (old != seen);
}

KERNEL(spinlock) {
  // Each thread takes a lock and gives it back: needs Volta's independent threads.
  bool done = false;
  while (!done) {
    if (atomicCAS(&out[0], 0, 1) == 0) {
      __threadfence();
      *(volatile unsigned *)&out[1] = *(volatile unsigned *)&out[1] + in[ID] % 10;
      __threadfence();
      atomicExch(&out[0], 0);
      done = true;
    }
  }
}

__constant__ double coeff[6] = {1.5, -0.25, 3.0, 1e-3, 7.0, 2.0};
KERNEL(doubles) {
  double x = (int)in[ID] * 1e-6, r = 0;
  for (int i = 0; i < 6; i++) r = r * x + coeff[i];
  r = sqrt(fabs(r)) / (1.0 + x * x) + floor(x) - rint(x * 3) + fmin(x, 0.5);
  long long b = __double_as_longlong(r);
  out[2 * ID] = (unsigned)b;
  out[2 * ID + 1] = b >> 32;
}

KERNEL(halves) {
  __half2 a = *(const __half2 *)&in[ID], b = *(const __half2 *)&in[(ID + 1) % n];
  __half2 c = __hfma2(a, b, __hadd2(a, b));
  c = __hmul2(__hsub2(c, a), b);
  __half m = __hgt(__low2half(c), __high2half(c)) ? __low2half(c) : __high2half(c);
  out[ID] = *(unsigned *)&c ^ __float_as_uint(__half2float(m));
}

KERNEL(votes) {
  unsigned x = in[ID], r;
  r = __ballot_sync(0xffffffff, x & 4);
  if (__any_sync(0xffffffff, x % 97 == 0)) r += 1;
  if (__all_sync(0xffffffff, x % 97)) r += 2;
  if (x & 1) r ^= __activemask() & __match_any_sync(__activemask(), x & 6);
  r += __popc(__ballot_sync(0xffffffff, r & 1));
  r += __shfl_sync(0xffffffff, r, x & 31) + __shfl_up_sync(0xffffffff, r, 3);
  out[ID] = r;
}

KERNEL(local_arrays) {
  unsigned a[20];
  for (int i = 0; i < 20; i++) a[i] = in[(ID * 3 + i) % n];
  for (int i = 0; i < 20; i++) {
    unsigned j = a[i] % 20, t = a[i];
    a[i] = a[j] + i;
    a[j] = t;
  }
  unsigned r = 0;
  for (int i = 0; i < 20; i++) r = r * 33 + a[i];
  out[ID] = r;
}

struct particle { float3 p; int kind; char tag[3]; double w; };
__device__ __noinline__ particle step(particle x, float dt) {
  x.p.x += dt * x.p.y; x.p.z -= dt; x.kind++; x.tag[x.kind % 3] ^= 0x55; x.w *= 1.25;
  return x;
}
KERNEL(structs) {
  particle x;
  x.p = make_float3(in[ID] & 0xff, threadIdx.x, 1.5f);
  x.kind = in[ID] % 5; x.tag[0] = 1; x.tag[1] = 2; x.tag[2] = (char)in[ID]; x.w = ID;
  for (int i = 0; i < 4; i++) x = step(x, 0.5f);
  out[ID] = __float_as_uint(x.p.x) ^ __float_as_uint(x.p.z) ^ x.kind ^ (x.tag[0] << 8) ^ (x.tag[1] << 16) ^ (x.tag[2] << 24) ^ (int)x.w;
}

template <typename T> __device__ T clampv(T x, T lo, T hi) { return x < lo ? lo : x > hi ? hi : x; }
KERNEL(stencil) {
  __shared__ float s[130];
  int t = threadIdx.x, g = ID;
  s[t + 1] = (float)(in[g] % 1000);
  if (t == 0) s[0] = g ? (float)(in[g - 1] % 1000) : 0;
  if (t == 127) s[129] = g + 1 < n ? (float)(in[g + 1] % 1000) : 0;
  __syncthreads();
  float v = s[t + 1];
#pragma unroll 4
  for (int i = 0; i < 10; i++) {
    v = fmaf(0.25f, s[t] + s[t + 2], v * 0.5f);
    v = clampv(v, 0.0f, 900.0f);
  }
  out[g] = __float_as_uint(v) + (unsigned)__float2int_rn(v / 3.0f) + __float2uint_rz(sqrtf(v));
}

KERNEL(wide) {
  unsigned long long a = ((unsigned long long)in[ID] << 32) | in[(ID + 7) % n], b = a * 0x9e3779b97f4a7c15ull;
  a = __umul64hi(a, b) + (b >> 7) - (a << 9);
  long long c = (long long)a / ((long long)(in[ID] % 1000) + 3), d = (long long)b % 12345;
  unsigned __int128 e = (unsigned __int128)a * b + c;
  out[2 * ID] = (unsigned)(e >> 64) ^ (unsigned)d;
  out[2 * ID + 1] = (unsigned)(e >> 96) + (unsigned)__popcll(a) + __ffsll(b) + __clzll(c);
}

KERNEL(vectors) {
  const uint4 *v = (const uint4 *)in;
  uint4 a = v[ID], b = __ldg(&v[(ID * 5) % (n / 4)]);
  ((uint4 *)out)[ID % 1024] = make_uint4(a.x + b.w, a.y ^ b.z, a.z * b.y, a.w - b.x);
}

KERNEL(named_barriers) {
  __shared__ unsigned s[128];
  int t = threadIdx.x;
  if (t < 64) {
    s[t] = in[ID];
    asm volatile("bar.sync 1, 64;" ::: "memory");
    unsigned v = s[63 - t];
    asm volatile("bar.arrive 2, 128;" ::: "memory");
    out[ID] = v;
  } else {
    s[t] = in[ID] + 1;
    asm volatile("bar.sync 2, 128;" ::: "memory");
    out[ID] = s[t - 64] + s[t];
  }
  out[ID] += __syncthreads_count(in[ID] & 1) + __syncthreads_or(in[ID] == 5) + __syncthreads_and(1);
}

KERNEL(warp_spin) {
  // The last warp feeds the others one after the other, through flags.
  __shared__ volatile unsigned flag[4], box[4];
  int w = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) flag[w] = 0;
  __syncthreads();
  if (w == 3) {
    for (int i = 0; i < 3; i++)
      if (lane == 0) { box[i] = in[blockIdx.x * 3 + i]; __threadfence_block(); flag[i] = 1; }
    out[ID] = 1;
  } else {
    if (lane == 0) while (!flag[w]) ;
    __syncwarp();
    out[ID] = box[w] + lane;
  }
}

KERNEL(lookback) {
  // Blocks wait for the one before them.
  __shared__ unsigned base;
  volatile unsigned *flags = out + 2000, *sums = out + 2100;
  unsigned s = 0;
  if (threadIdx.x == 0) {
    if (blockIdx.x > 0) { while (!flags[blockIdx.x - 1]) ; __threadfence(); s = sums[blockIdx.x - 1]; }
    base = s;
    sums[blockIdx.x] = s + in[ID] % 100;
    __threadfence();
    flags[blockIdx.x] = 1;
  }
  __syncthreads();
  out[ID] = base + threadIdx.x;
}

KERNEL(halves_of_warps) {
  // The two sides of a branch synchronise and shuffle on their own.
  unsigned lane = threadIdx.x % 32, x = in[ID], r;
  if (lane < 16) {
    for (int i = 0; i < 4; i++) x += __shfl_xor_sync(0x0000ffff, x, 1 << i, 16);
    __syncwarp(0x0000ffff);
    r = x;
  } else {
    r = __shfl_down_sync(0xffff0000, x, 2) ^ __ballot_sync(0xffff0000, x & 1);
    for (unsigned i = 0; i < lane % 5; i++) r = r * 5 + 1;
    __syncwarp(0xffff0000);
  }
  __syncwarp();
  out[ID] = r + __shfl_sync(0xffffffff, r, 31 - lane);
}

KERNEL(groups) {
  namespace cg = cooperative_groups;
  cg::thread_block b = cg::this_thread_block();
  auto t = cg::tiled_partition<8>(b);
  unsigned x = in[ID];
  for (int o = t.size() / 2; o; o /= 2) x += t.shfl_down(x, o);
  if (in[ID] & 1) {
    auto c = cg::coalesced_threads();
    x += c.size() * 1000 + c.thread_rank();
    x ^= c.shfl(x, 0);
  }
  b.sync();
  out[ID] = x;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // nvcc has bf16 arithmetic from there on
KERNEL(bfloats) {
  __nv_bfloat16 a = __float2bfloat16((float)(in[ID] % 500) / 7), b = __ushort_as_bfloat16((unsigned short)(in[ID] & 0x3fff));
  __nv_bfloat162 c = __floats2bfloat162_rn((float)(int)in[ID], 1.0f / (1 + in[ID] % 9));
  a = __hfma(a, b, a);
  if (__hlt(a, b)) a = __hadd(a, __low2bfloat16(c));
  out[ID] = __bfloat16_as_ushort(a) | __bfloat16_as_ushort(__high2bfloat16(c)) << 16;
}
#endif

KERNEL(intrinsics) {
  unsigned x = in[ID], y = in[(ID + 1) % n], r;
  r = __funnelshift_l(x, y, 5) ^ __funnelshift_r(x, y, x & 63);
  r += __dp4a(x, y, r) + __mulhi((int)x, (int)y) + __umul24(x, y) + __sad((int)x, (int)y, r);
  r ^= __vadd4(x, y) + __vmaxs2(x, y) + __brev(x) + __ffs(y) + __hadd((int)x, (int)y);
  r += __float_as_uint(__fmaf_rz(1.5f, (float)x, 3.0f)) ^ __float_as_uint(__fadd_ru((float)y, 0.1f)) ^ __float_as_uint(__fdiv_rd(1.0f, (float)(x | 1)));
  r ^= (unsigned)__double2ll_rn((double)x * 1.0000001) + (unsigned)__double2hiint(__dsqrt_ru((double)y)) + (unsigned)__dmul_rd((double)x, 0.3);
  r += __saturatef((float)(int)x) > 0.5f ? __half_as_ushort(__float2half_rz((float)(x % 70000))) : (unsigned)llrintf((float)y * 0.37f);
  r += (unsigned)fmodf((float)(x % 10000), 7.0f) + (unsigned)truncf((float)y / 3) + (unsigned)rsqrtf(4.0f) + (unsigned)ldexp(1.0, x % 20);
  out[ID] = r;
}

KERNEL(matrix) {
  // A 64 x 16 by 16 x 16 product in tiles, with float2 loads.
  __shared__ float a[8][16], b[16][17];
  int r = threadIdx.x / 16, c = threadIdx.x % 16;
  a[r][c] = (float)(in[blockIdx.x * 128 + threadIdx.x] % 64);
  for (int i = r; i < 16; i += 8) b[i][c] = (float)(in[3000 + i * 16 + c] % 64) / 8;
  __syncthreads();
  float s = 0;
  for (int i = 0; i < 16; i++) s += a[r][i] * b[i][c];
  out[ID] = __float_as_uint(s);
}

KERNEL(early_exit) {
  if (in[ID] % 3 == 0) return;
  __syncthreads();
  out[ID] = __syncthreads_count(1) + __popc(__activemask());
}

// A library with some functions of NVIDIA's, on memory that the processor reaches: what they get goes to
// a log that fake_log returns, and the products are computed. It stands in for libcublas, libcublasLt,
// libcudnn, libcufft and libcurand in tests.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID = 7, NOT_INITIALIZED = 1, UNSUPPORTED = 15 };

static char text[1 << 16];
static size_t used;

static void say(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	used += (size_t)vsnprintf(text + used, sizeof text - used, format, list);
	if (used > sizeof text - 256)
		used = 0;
	va_end(list);
}

// cublasGetStatusString returns the log since the last call, which tests read so.
const char *cublasGetStatusString(int status)
{
	static char last[512];
	if (status != 999)
		return "some status";
	memcpy(last, text, sizeof last - 1);
	used = 0;
	text[0] = 0;
	return last;
}

// handle is what a library handle points to.
struct handle {
	uint32_t magic;
	void *stream, *workspace;
	uint64_t size;
	int pointer, math;
};

static int handles;

static struct handle *make(void)
{
	struct handle *h = calloc(1, sizeof *h);
	h->magic = 0x600df00d;
	handles++;
	return h;
}

int cublasCreate_v2(struct handle **h)
{
	if (getenv("PVDRM_TEST_NO_HANDLES"))
		return 14;
	*h = make();
	say("create ");
	return 0;
}

int cublasDestroy_v2(struct handle *h)
{
	say("destroy ");
	handles--;
	h->magic = 0;
	free(h);
	return 0;
}

int cublasGetVersion_v2(struct handle *h, int *version)
{
	*version = !h || h->magic == 0x600df00d ? 130000 : 0;
	return 0;
}

int cublasGetProperty(int type, int *value)
{
	if (type > 2)
		return INVALID;
	*value = 13 + type;
	return 0;
}

int cublasSetStream_v2(struct handle *h, void *stream)
{
	say("stream%d ", stream != 0);
	h->stream = stream;
	h->workspace = 0;
	return 0;
}

int cublasSetWorkspace_v2(struct handle *h, void *at, size_t size)
{
	say("workspace%zu ", size);
	if (size == 13)
		return INVALID;
	h->workspace = at;
	h->size = size;
	return 0;
}

int cublasSetPointerMode_v2(struct handle *h, int mode)
{
	say("pointer%d ", mode);
	h->pointer = mode;
	return 0;
}

int cublasSetMathMode(struct handle *h, int mode)
{
	say("math%d ", mode);
	h->math = mode;
	return 0;
}

// Column-major, not transposed.
int cublasSgemm_v2(struct handle *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b,
		   int ldb, const float *beta, float *c, int ldc)
{
	if (h->magic != 0x600df00d)
		return NOT_INITIALIZED;
	if (m < 0 || ta || tb)
		return INVALID;
	for (int j = 0; j < n; j++)
		for (int i = 0; i < m; i++) {
			float sum = 0;
			for (int p = 0; p < k; p++)
				sum += a[i + p * lda] * b[p + j * ldb];
			c[i + j * ldc] = *alpha * sum + (*beta ? *beta * c[i + j * ldc] : 0);
		}
	say("sgemm%d math%d ws%d ", m, h->math, h->workspace != 0);
	return 0;
}

// 22 arguments, which is more than fit into registers.
int cublasGemmStridedBatchedEx(struct handle *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int at, int lda,
			       long long sa, const void *b, int bt, int ldb, long long sb, const void *beta, void *c, int ct, int ldc,
			       long long sc, int count, int compute, int algo)
{
	say("batched %d %d %d %d %d | %d %d %lld | %d %d %lld | %d %d %lld | %d %d %d ", ta, tb, m, n, k, at, lda, sa, bt, ldb, sb, ct, ldc,
	    sc, count, compute, algo);
	for (int i = 0; i < count; i++) {
		int r = cublasSgemm_v2(h, ta, tb, m, n, k, alpha, (const float *)a + i * sa, lda, (const float *)b + i * sb, ldb, beta,
				       (float *)c + i * sc, ldc);
		if (r)
			return r;
	}
	return 0;
}

int cublasSdot_v2(struct handle *h, int n, const float *x, int incx, const float *y, int incy, float *result)
{
	float sum = 0;
	for (int i = 0; i < n; i++)
		sum += x[i * incx] * y[i * incy];
	*result = sum;
	say("dot%d ", h->pointer);
	return 0;
}

int cublasSgeqrfBatched(struct handle *h, int m, int n, float **a, int lda, float **tau, int *info, int batch)
{
	*info = a && tau && h && m + n + lda + batch < 1000 ? 0 : -3;
	return 0;
}

int cublasLtMatmulDescCreate(struct handle **d, int compute, int scale)
{
	*d = make();
	(*d)->pointer = compute;
	(*d)->math = scale;
	return compute == 999 ? UNSUPPORTED : 0;
}

int cublasLtMatmulDescDestroy(struct handle *d) { return cublasDestroy_v2(d); }

int cublasLtMatmulDescSetAttribute(struct handle *d, int attr, const void *buf, size_t size)
{
	say("attr%d:%zu:%02x ", attr, size, *(const uint8_t *)buf);
	return d->magic == 0x600df00d ? 0 : INVALID;
}

int cublasLtMatmulDescGetAttribute(struct handle *d, int attr, void *buf, size_t size, size_t *written)
{
	memset(buf, attr, size);
	*written = size;
	return d->magic == 0x600df00d ? 0 : INVALID;
}

size_t cublasLtGetVersion(void) { return 130004; }
size_t cudnnGetVersion(void) { return 91400; }
int cufftGetVersion(int *version) { return *version = 12000, 0; }

// The algorithm is in and out.
int cublasLtMatmulAlgoConfigSetAttribute(uint64_t *algo, int attr, const void *buf, size_t size)
{
	algo[0] += (uint64_t)attr;
	algo[7] = size + *(const uint8_t *)buf;
	return 0;
}

int cudnnCreate(struct handle **h) { return cublasCreate_v2(h); }
int cudnnBackendCreateDescriptor(int type, struct handle **d)
{
	*d = make();
	(*d)->math = type;
	return 0;
}
int cudnnBackendDestroyDescriptor(struct handle *d) { return cublasDestroy_v2(d); }

int cudnnBackendSetAttribute(struct handle *d, int name, int type, int64_t count, const void *array)
{
	say("set%d:%d[%lld]", name, type, (long long)count);
	for (int64_t i = 0; i < count; i++)
		switch (type) {
		case 15:
			say("d%d", (*(struct handle *const *)((const char *)array + 8 * i))->math);
			break;
		case 6: {
			const float *p = *(const float *const *)((const char *)array + 8 * i);
			d->stream = (void *)p; // read when it executes
			break;
		}
		case 3:
			d->pointer = (int)((const int64_t *)array)[i];
			say(",%lld", (long long)((const int64_t *)array)[i]);
		}
	say(" ");
	return 0;
}

int cudnnBackendGetAttribute(struct handle *d, int name, int type, int64_t wanted, int64_t *count, void *array)
{
	*count = wanted;
	if (name == 9 && wanted > 1) // there are fewer than room for them, and it tells how many it has
		wanted = 1;
	if (name == 9)
		*count = 1;
	for (int64_t i = 0; i < wanted; i++)
		if (type == 15)
			((struct handle **)array)[i]->math = 100 + (int)i;
		else
			((int64_t *)array)[i] = d->math + i;
	return 0;
}

int cudnnBackendFinalize(struct handle *d)
{
	if (d->math == 16)
		say("pack%d ", d->pointer);
	return d->math == 77 || d->pointer == 13 ? 3000 : 0;
}
int cudnnCreateTensorDescriptor(struct handle **d) { return *d = make(), 0; }
int cudnnDestroyTensorDescriptor(struct handle *d) { return cublasDestroy_v2(d); }
int cudnnSetTensor4dDescriptor(struct handle *d, int format, int type, int n, int c, int h, int w)
{
	d->math = format + type + n * c * h * w;
	return n < 0 ? 2000 : 0;
}
int cudnnGetTensorSizeInBytes(struct handle *d, size_t *size)
{
	say("size%d ", d->math);
	*size = 4 * (size_t)d->math;
	return 0;
}
int cudnnSetStream(struct handle *h, void *stream) { return cublasSetStream_v2(h, stream); }

int cudnnBackendExecute(struct handle *h, struct handle *plan, struct handle *pack)
{
	say("execute%d:%g ", plan->math, pack->stream ? (double)*(const float *)pack->stream : 0.0);
	return h->magic == 0x600df00d ? 0 : 5000;
}

int cufftPlanMany(int *plan, int rank, int *n, int *inembed, int istride, int idist, int *onembed, int ostride, int odist, int type, int batch)
{
	say("plan%d:%d:%d:%d:%d ", rank, n[rank - 1], inembed ? inembed[0] : -1, onembed ? onembed[0] : -1,
	    istride + idist + ostride + odist + type + batch);
	*plan = 41 + rank;
	return 0;
}
int cufftSetStream(int plan, void *stream) { return say("fftstream%d:%d ", plan, stream != 0), 0; }
int cufftSetWorkArea(int plan, void *area) { return say("area%d:%d ", plan, area != 0), 0; }
int cufftXtExec(int plan, void *in, void *out, int direction) { return say("exec%d:%d:%d ", plan, in == out, direction), 0; }
int cufftDestroy(int plan) { return say("fftdestroy%d ", plan), 0; }

int cufftPlan1d(int *plan, int n, int type, int batch) { return *plan = n + type + batch, 0; }
int cublasLtCreate(struct handle **h) { return cublasCreate_v2(h); }
int cublasLtDestroy(struct handle *h) { return cublasDestroy_v2(h); }
int cublasLtMatmulAlgoGetIds(struct handle *h, int compute, int scale, int a, int b, int c, int d, int most, int *ids, int *found)
{
	for (int i = 0; i < most; i++)
		ids[i] = compute + scale + a + b + c + d + i;
	*found = most;
	return h->magic == 0x600df00d ? 0 : NOT_INITIALIZED;
}
int cudnnDestroy(struct handle *h) { return cublasDestroy_v2(h); }
int curandDestroyGenerator(struct handle *h) { return cublasDestroy_v2(h); }
int curandCreateGenerator(struct handle **h, int type) { return (void)type, cublasCreate_v2(h); }
int curandSetStream(struct handle *h, void *stream) { return cublasSetStream_v2(h, stream); }
int curandGenerateNormal(struct handle *h, float *out, size_t n, float mean, float deviation)
{
	for (size_t i = 0; i < n; i++)
		out[i] = mean + deviation;
	return h->magic == 0x600df00d ? 0 : 101;
}
int curandGenerateBinomial(struct handle *h, unsigned *out, size_t n, unsigned tries, double p)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (unsigned)(tries * p);
	return h->magic == 0x600df00d ? 0 : 101;
}

// cublasSetSmCountTarget ends the process for one number, as a library may crash.
int cublasSetSmCountTarget(struct handle *h, int n)
{
	if (n == 666)
		abort();
	return h ? 0 : INVALID;
}

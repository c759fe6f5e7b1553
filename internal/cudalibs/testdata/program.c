// Calls stubs with arguments in registers, on the stack, and as floats.
#include <stdio.h>

int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int at, int lda, long long sa,
			       const void *b, int bt, int ldb, long long sb, const void *beta, void *c, int ct, int ldc, long long sc,
			       int count, int compute, int algo);
int curandGenerateBinomialMethod(void *g, unsigned *out, size_t n, unsigned tries, double p, int method);
int curandGenerateNormal(void *g, float *out, size_t n, float mean, float deviation);
size_t cublasLtGetVersion(void);
const char *cublasGetStatusString(int status);
size_t cublasLtDisableCpuInstructionsSetMask(unsigned mask);

int main(void)
{
	int r = cublasGemmStridedBatchedEx((void *)1, 2, 3, 4, 5, 6, (void *)7, (void *)8, 9, 10, -11, (void *)12, 13, 14, 15, (void *)16,
					   (void *)17, 18, 19, 20, 21, 22, 23);
	printf("%x\n", r);
	curandGenerateBinomialMethod((void *)1, (void *)2, 3, 4, 0.5, 6);
	curandGenerateNormal((void *)1, (void *)2, 3, 1.5f, -2.0f);
	printf("%zx\n", cublasLtGetVersion());
	printf("%d\n", curandGenerateNormal((void *)0xbad, 0, 0, 0, 0));
	printf("%s\n", cublasGetStatusString(0x77));
	printf("%zu\n", cublasLtDisableCpuInstructionsSetMask(0x77));
	return 0;
}

package headers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/cudalibs"
)

// A header of ours, in the shape of NVIDIA's.
const header = `
#ifndef X_H
#define X_H /* a comment */ \
	over two lines
#define blasScale blasScale_v2
typedef struct blasContext *blasHandle_t;
typedef struct blasThing const *blasConstThing_t;
typedef enum { BLAS_OK = 0 } blasStatus_t; // not a handle
static inline blasStatus_t blasHelper(blasHandle_t handle) { if (handle) { return blasScale_v2(handle, 0, 0, 0, 0); } return 0; }
BLAS_DEPRECATED(no more)
blasStatus_t BLASAPI blasCreate(blasHandle_t *handle);
blasStatus_t BLASAPI blasDestroy(blasHandle_t handle);
blasStatus_t BLASAPI blasScale_v2(blasHandle_t handle, int n,
	const float *alpha, /* host or device pointer */
	const float *betaDiff, float *x, int64_t incx);
blasStatus_t blasMix(blasHandle_t handle, const int dims[], double weight, float mean, cudaStream_t stream, blasConstThing_t thing);
blasStatus_t blasScale_bufferSize(blasHandle_t handle, size_t *bytes, int *lwork);
const char *blasGetErrorString(blasStatus_t status);
size_t blasGetVersion(void);
int otherFunction(int x);
#endif
`

func TestParse(t *testing.T) {
	h := Parse(header, "blas")
	require.Equal(t, map[string]bool{"blasHandle_t": true, "blasConstThing_t": true}, h.Handles)
	var rows []string
	for _, p := range h.Prototypes {
		rows = append(rows, Propose(p, h))
	}
	require.Equal(t, []string{
		"blasCreate control +blashandle",
		"blasDestroy late -blashandle",
		"blasScale_v2 async @blashandle i S S D l",
		"blasMix async @blashandle D d f s @blasthing",
		"blasScale_bufferSize control @blashandle >8 >4",
		"blasGetErrorString text i",
		"blasGetVersion number ",
	}, rows)
}

func TestCheck(t *testing.T) {
	const text = `
typedef struct cublasContext *cublasHandle_t;
cublasStatus_t cublasSgeam(cublasHandle_t handle, int a, int b, int m, int n, const float *alpha, const float *A, int lda, const float *beta, const float *B, int ldb, float *C, int ldc);
cublasStatus_t cublasSdgmm(cublasHandle_t handle, int mode, int m, int n, const float *A, int lda, const float *x, int incx, float *C, int64_t ldc);
cublasStatus_t cublasSscal_v2(cublasHandle_t handle, int n, const float *x, float *alpha, int incx);
cublasStatus_t cublasStpttr(cublasHandle_t handle, int uplo, int n, const float *AP, float *A);
`
	h := Parse(text, "cublas")
	require.Len(t, h.Prototypes, 4)
	check := func(i int) string { return Check(cudalibs.All().Named(h.Prototypes[i].Name), h.Prototypes[i], h) }
	require.Empty(t, check(0))
	require.Contains(t, check(1), "parameter 9 is int64_t ldc")
	require.Contains(t, check(2), "parameter 3 is float * alpha, as S")
	require.Contains(t, check(3), "6 parameters, the header has 5")
}

/* What the kernels need of OpenCL C without its library: types and indices. */

typedef unsigned int uint;

typedef int int4 __attribute__((ext_vector_type(4)));
typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float4 __attribute__((ext_vector_type(4)));

/* The x, y place of a thread in its block, and of its block in the grid. */
#define TX __nvvm_read_ptx_sreg_tid_x()
#define TY __nvvm_read_ptx_sreg_tid_y()
#define BX __nvvm_read_ptx_sreg_ctaid_x()
#define BY __nvvm_read_ptx_sreg_ctaid_y()

/* The place of a thread in the grid. */
#define GX (BX * __nvvm_read_ptx_sreg_ntid_x() + TX)
#define GY (BY * __nvvm_read_ptx_sreg_ntid_y() + TY)

/*
 * Every thread of the block arrives, and sees what the others wrote to the
 * __local arrays. Say SHARED(array) after the declaration of each one: clang
 * takes an array whose address goes nowhere for one that nobody else can
 * change, even across a barrier, and may read it before. This lets the address
 * go somewhere; it makes no instruction.
 */
#define BARRIER() __syncthreads()
#define SHARED(array) __asm__ volatile("" : : "l"(array) : "memory")

#define LOG2_E 1.44269504f /* log2 of e */
#define LN_2 0.69314718f   /* natural logarithm of 2 */

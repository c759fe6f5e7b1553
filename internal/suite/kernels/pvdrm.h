/*
 * What the kernels need of OpenCL C: types, indices, barriers and functions. clang
 * makes PTX of them without OpenCL's library; an OpenCL implementation, for a
 * comparison, defines PVDRM_OPENCL and has all that itself.
 */

#ifdef PVDRM_OPENCL

#define TX ((uint)get_local_id(0))
#define TY ((uint)get_local_id(1))
#define BX ((uint)get_group_id(0))
#define BY ((uint)get_group_id(1))
#define NBX ((uint)get_num_groups(0))
#define GX ((uint)get_global_id(0))
#define GY ((uint)get_global_id(1))

#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define SHARED(array)

#define ATOMIC_ADD(p, x) atomic_add(p, x)
#define EX2(x) native_exp2(x)
#define LG2(x) native_log2(x)
#define RSQRT(x) native_rsqrt(x)
#define SQRT(x) sqrt(x)

#else

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;

typedef int int4 __attribute__((ext_vector_type(4)));
typedef uint uint4 __attribute__((ext_vector_type(4)));
typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float4 __attribute__((ext_vector_type(4)));

/* The x, y place of a thread in its block, and of its block in the grid. */
#define TX __nvvm_read_ptx_sreg_tid_x()
#define TY __nvvm_read_ptx_sreg_tid_y()
#define BX __nvvm_read_ptx_sreg_ctaid_x()
#define BY __nvvm_read_ptx_sreg_ctaid_y()

#define NBX __nvvm_read_ptx_sreg_nctaid_x() /* blocks of the grid */

/* The place of a thread in the grid. */
#define GX (BX * __nvvm_read_ptx_sreg_ntid_x() + TX)
#define GY (BY * __nvvm_read_ptx_sreg_ntid_y() + TY)

/*
 * Every thread of the block arrives, and sees what the others wrote to the
 * __local arrays. Say SHARED(array) after the declaration of each one: clang
 * takes an array whose address goes nowhere for one that no other thread
 * changes, even across a barrier, and may read it before. This lets the address
 * go somewhere; it makes no instruction.
 */
#define BARRIER() __syncthreads()
#define SHARED(array) __asm__ volatile("" : : "l"(array) : "memory")

/* Adds to a word that several threads change. */
#define ATOMIC_ADD(p, x) __sync_fetch_and_add(p, x)

/* 2 to the power of x, the logarithm to that base, and roots. */
#define EX2(x) __nvvm_ex2_approx_f(x)
#define LG2(x) __nvvm_lg2_approx_f(x)
#define RSQRT(x) __nvvm_rsqrt_approx_f(x)
#define SQRT(x) __builtin_sqrtf(x)

#endif

#define LOG2_E 1.44269504f /* log2 of e */
#define LN_2 0.69314718f   /* natural logarithm of 2 */

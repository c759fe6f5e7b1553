#define TESTING
#include "train_gpt2_fp32.cu"
#include "steps.h"

static void synchronize(void) { cudaCheck(cudaDeviceSynchronize()); }

static void gradients_of(GPT2 *model, float *to)
{
	cudaCheck(cudaMemcpy(to, model->grads_memory, model->num_parameters * sizeof(float), cudaMemcpyDeviceToHost));
}

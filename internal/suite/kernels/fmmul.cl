#include "pvdrm.h"

#define NAME fmmul
#define T float
#define T4 float4
#include "mmul.h"

#include "pvdrm.h"

#define NAME mmul
#define T int
#define T4 int4
#include "mmul.h"

# Compiles the suite's kernels from OpenCL C to PTX. The PTX is kept in the tree,
# so that a build needs no compiler for it; run `make kernels` after a change of a
# .cl or .h file. The result depends on the sources and on clang's version alone.

KERNELS_DIR := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
KERNELS_CLANG ?= clang
KERNELS_SM = sm_70
KERNELS_PTX = ptx63
KERNELS_FLAGS = -x cl -cl-std=CL1.2 --target=nvptx64-nvidia-cuda -march=$(KERNELS_SM) \
	-Xclang -target-feature -Xclang +$(KERNELS_PTX) -O2 -Wall -Wextra -Werror -S -nocudalib

# The products of f16 matrices are of 8.0 and later.
$(KERNELS_DIR)/hmmul.ptx: KERNELS_SM = sm_80
$(KERNELS_DIR)/hmmul.ptx: KERNELS_PTX = ptx70

.PHONY: kernels
kernels: $(patsubst %.cl,%.ptx,$(wildcard $(KERNELS_DIR)/*.cl $(KERNELS_DIR)/../division/*.cl)) ## compile the suite's kernels to PTX (needs clang)

$(KERNELS_DIR)/%.ptx: $(KERNELS_DIR)/%.cl $(wildcard $(KERNELS_DIR)/*.h) $(KERNELS_DIR)/kernels.mk
	$(KERNELS_CLANG) $(KERNELS_FLAGS) $< -o $@

$(KERNELS_DIR)/../division/%.ptx: $(KERNELS_DIR)/../division/%.cl $(KERNELS_DIR)/pvdrm.h $(KERNELS_DIR)/kernels.mk
	$(KERNELS_CLANG) $(KERNELS_FLAGS) $< -o $@

# Compiles the programs of bench gloop from CUDA C++ to PTX, without a CUDA SDK. The PTX is kept in
# the tree; run `make gloop-kernels` after a change of a source. A test compares a digest of sources.

GLOOP_DIR := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
GLOOP_CLANG ?= clang-16
GLOOP_LIBRARY := $(GLOOP_DIR)/../../../frontend/gloop/device
GLOOP_FLAGS := -x cuda --cuda-gpu-arch=sm_70 -nocudainc -nocudalib --cuda-device-only -std=c++17 \
	-Xclang -target-feature -Xclang +ptx63 -ffp-contract=off -O2 -Wall -Wextra -Werror -S -I$(GLOOP_LIBRARY)

.PHONY: gloop-kernels
gloop-kernels: ## compile the programs of bench gloop to PTX (needs clang-16)
	@set -e; cd $(GLOOP_DIR)/device; for f in *.cu; do case $$f in \
	*.loop.cu) n=$${f%.loop.cu}; \
		$(GLOOP_CLANG) $(subst $(GLOOP_DIR)/,../,$(GLOOP_FLAGS)) $$f -o $$n.loop.ptx; \
		$(GLOOP_CLANG) $(subst $(GLOOP_DIR)/,../,$(GLOOP_FLAGS)) -DGLOOP_SHARED=0 $$f -o $$n.noshared.ptx ;; \
	*) $(GLOOP_CLANG) $(subst $(GLOOP_DIR)/,../,$(GLOOP_FLAGS)) $$f -o $${f%.cu}.ptx ;; \
	esac; done
	@cd $(GLOOP_DIR) && go test -run TestSources -update .

# PVDRM: make help lists what there is. Everything works from a fresh clone.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO          ?= $(shell scripts/go.sh)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.0
FUZZTIME    ?= 5s
HOURS       ?= 8
VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS     := -s -w
GUEST       := pvdrm-init gdev pvdrm-run glscene
# pvdrm's software GPU uses Go's SIMD package, which Go has under this name only
# (on amd64; elsewhere it changes nothing).
SIMD        := GOEXPERIMENT=simd
# What make simd and make race pass to go test: a sample of what takes long there and is run in full by make test, or
# by make simd-long and make race-long.
SHORT       := -short
# The packages whose tests take longest come first: go test starts packages in this order, as many as there are
# processors, and the last ones should be short.
LONGEST     := ./tests ./tests/ptx ./gpu/softgpu/exec/jit ./backend/arbiter ./gpu/nvidia ./backend/gpuvm ./gpu/softgpu/exec ./gpu/points ./internal/suite

include internal/suite/kernels/kernels.mk
include internal/suite/gloop/gloop.mk

.PHONY: gloop
gloop: gloop-kernels ## compile all GLoop programs to PTX (needs clang-16)
	@scripts/gloop.sh $(shell git ls-files 'frontend/gloop/*.cu' 'examples/gloop/*.cu')

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: deps
deps: ## install what is missing (QEMU 10, Go); as root, or it names the commands
	@scripts/deps.sh

.PHONY: build
build: ## build pvdrm and the guest programs into bin/
	@mkdir -p bin/guest
	@$(SIMD) $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS) -X main.version=$(VERSION)' -o bin/pvdrm ./cmd/pvdrm
	@for p in $(GUEST); do CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/guest/$$p ./cmd/$$p; done
	@for p in gdev pvdrm-run; do ln -f bin/guest/$$p bin/$$p; done
	@GO="$(GO)" scripts/libcuda.sh bin/lib
	@echo "built bin/pvdrm, bin/gdev, bin/pvdrm-run, the guest programs in bin/guest and, where there is a C compiler, bin/lib/libcuda.so.1, libcudart.so, libpvdrm-static.so and libnvidia-ml.so.1"

.PHONY: cuda-clients
cuda-clients: build ## build the programs in tests/clients/nvcc with nvcc's defaults (NVCC names it), and run them as local guests
	@scripts/cuda-clients.sh out/cuda-clients
	@scripts/cuda-clients-run.sh out/cuda-clients

.PHONY: programs
programs: build ## run public CUDA programs, built in BIN, with the inputs in SRC (docs/cuda-programs.md)
	@$(GO) run ./tests/programs -bin "$(BIN)" -src "$(SRC)" $(filter-out %-small.txt,$(wildcard tests/programs/*.txt))

.PHONY: points
points: build ## run the same programs with kernels that leave the GPU at each, each third and each 40th look (docs/rewriting.md)
	@for k in 1 3 40; do $(GO) run ./tests/programs -bin "$(BIN)" -src "$(SRC)" -out out/points-$$k -args "--automatic-points --points-every $$k" tests/programs/polybench.txt tests/programs/rodinia.txt; done

.PHONY: image
image: deps build ## build the guest image into the cache
	@bin/pvdrm image build

.PHONY: demo
demo: deps build ## boot a virtual machine and run the Gdev suite on its paravirtual GPU
	@scripts/demo.sh

.PHONY: demo-gl
demo-gl: export PVDRM_DEPS := gl
demo-gl: deps build ## render scenes with Mesa in a virtual machine, and compare the pictures
	@scripts/demo-gl.sh

.PHONY: weston
weston: export PVDRM_DEPS := gl
weston: deps build ## show a Wayland desktop of a virtual machine (fetches 52 MB: Debian's weston and what it needs)
	@scripts/weston.sh

.PHONY: igt
igt: export PVDRM_DEPS := gl
igt: deps build ## run tests of IGT, Linux's DRM test suite, in a virtual machine (fetches 30 MB from Debian's unstable suite)
	@scripts/igt.sh

.PHONY: bench-modes-vm
bench-modes-vm: deps build ## compare all modes of GPUvm and PVDRM in virtual machines (takes half an hour where processors are emulated)
	@mkdir -p out
	@bin/pvdrm bench modes --vm --modes native,fv,fv-remap,fv-lazy,fv-opt,pv,pv-multicall,pvdrm,pvdrm-pool,nested --runs 2 --json out/bench-modes-vm.json --html out/bench-modes-vm.html

.PHONY: pci
pci: deps build ## drive cards of GPUvm by their BARs in virtual machines (fetches QEMU 11.1 from Debian's unstable suite, 60 MB)
	@qemu=$$(scripts/qemu-pci.sh) && \
	for mode in fv-opt fv-remap pv-multicall nested; do \
	  bin/pvdrm up --qemu "$$qemu" --interface $$mode --traps pci --vram 512M -- gdev run --counters nop madd; done
	@echo "make pci: programs are right on a PCI device"

.PHONY: test
test: export PVDRM_DEPS := test
test: deps build ## run all tests, those in virtual machines too
	@PATH="$$(dirname "$$(command -v $(GO))"):$$PATH" $(GO) test $(VET) -timeout 40m $(LONGEST) ./...
	@echo "make test: all tests passed, those that boot a virtual machine included"

.PHONY: test-long
test-long: export PVDRM_TEST_LONG := 1
test-long: test ## make test, and what it takes a sample of in full

.PHONY: simd
simd: ## check and test the software GPU as make build builds it, with SIMD
	@$(SIMD) $(GO) vet ./gpu/softgpu/...
	@$(SIMD) $(GO) run $(STATICCHECK) ./gpu/softgpu/...
	@# native code is the same with and without SIMD: the widest here, and all widths in make test
	@$(SIMD) $(GO) test -vet=off -timeout 20m $(SHORT) ./tests/ptx ./gpu/softgpu/exec/jit ./gpu/softgpu/... ./tests/ptx/...
	@# again with less of the processor: make test has native code of all widths, these what the switches leave.
	@# -count=1: the cache of tests does not know the switches
	@GODEBUG=cpu.avx512f=off $(SIMD) $(GO) test -vet=off -count=1 $(SHORT) -run TestRandomKernels ./tests/ptx
	@GODEBUG=cpu.avx512f=off,cpu.avx2=off $(SIMD) $(GO) test -vet=off -count=1 $(SHORT) -run TestRandomKernels ./tests/ptx
	@GODEBUG=cpu.avx512f=off,cpu.avx2=off,cpu.sse42=off $(SIMD) $(GO) test -vet=off -count=1 ./gpu/softgpu/exec
	@GODEBUG=cpu.avx512f=off,cpu.avx2=off,cpu.sse42=off $(SIMD) $(GO) test -vet=off -count=1 $(SHORT) -run 'TestRandomKernels|TestCorpus' ./tests/ptx
	@echo "make simd: the software GPU passes with SIMD"

.PHONY: simd-long
simd-long: SHORT :=
simd-long: simd ## make simd, with all tests in full

# A program of the race detector sleeps for a second before it ends, so that others of its threads can report. Hundreds
# of workers end in these tests. make lint has run go vet.
RACE := GORACE=atexit_sleep_ms=50 CGO_ENABLED=1 $(GO) test -race -vet=off
# make race leaves these out, which have no goroutines of their own and take long under it.
RACE_SINGLE := ./backend/sched/... ./frontend/cuda/rt ./frontend/gloop/device ./gpu/softgpu/exec/jit ./internal/bench/baseline ./internal/bench/clang ./internal/bench/cmicro ./internal/bench/opencl
RACE_LONGEST := ./tests ./gpu/nvidia ./backend/arbiter ./gpu/softgpu ./gpu/softgpu/exec ./backend/gpuvm ./internal/suite ./frontend/cuda ./internal/suite/gloop

.PHONY: race
race: ## run the tests of the concurrent packages under the race detector (needs gcc)
	@$(RACE) $(SHORT) -timeout 60m $(RACE_LONGEST) $$($(GO) list ./backend/... ./drm/... ./frontend/... ./gem/... ./gpu ./gpu/softgpu/exec/lane ./gpu/softgpu/exec/run ./hypercall/... ./internal/... ./tests/replay ./vmm/control/... ./vmm/qmp/... ./vmm/vnc/... | grep -vxF "$$($(GO) list $(RACE_SINGLE))")
	@# of the compiler to native code what is concurrent: the others compare what one goroutine computes
	@$(RACE) $(SHORT) -timeout 10m ./gpu/softgpu/exec/jit -run '^(TestPool|TestCompilerFails|TestEnough|TestAtOnceAfterHot|TestExtents.*)$$'
	@# without the tests of machines and of programs, which run other binaries than the one that is watched
	@$(RACE) $(SHORT) -timeout 10m ./vmm -skip "Boot|Guest|QEMUIsKilled|KernelWithoutInit|ContextEnds|StarterIsKilled"
	@echo "make race: nothing found"

.PHONY: race-long
race-long: SHORT :=
race-long: race ## make race with all tests in full, and with what it leaves out because it is not concurrent
	@$(RACE) -timeout 120m ./gpu/softgpu/exec/... $(RACE_SINGLE)
	@echo "make race-long: nothing found"

.PHONY: stress
stress: export PVDRM_DEPS := test
stress: deps build ## kill guests, backends, QEMU and the arbiter at any time, 200 times, and look for what is left
	@$(GO) test -count=1 -timeout 60m ./tests -run '^TestKilledAtAnyTime$$' -v -args -stress-rounds 200
	@echo "make stress: nothing is left"

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@bad=$$($$($(GO) env GOROOT)/bin/gofmt -l $$(git ls-files -c -o --exclude-standard '*.go')); \
	  if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi
	@$(GO) vet ./...
	@$(GO) run $(STATICCHECK) ./...
	@echo "make lint: clean"

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (5s)
	@GO="$(GO)" scripts/fuzz.sh $(FUZZTIME)

.PHONY: fuzz-long
fuzz-long: ## fuzz for HOURS (8) of processor time, divided among the targets by need
	@GO="$(GO)" scripts/fuzz-long.sh $(HOURS)

.PHONY: fuzz-keep
fuzz-keep: ## add what make fuzz-long found and is new to the testdata folders
	@$(GO) run ./tests/fuzz/keep

.PHONY: fuzz-hours
fuzz-hours: ## add the time of make fuzz-long to docs/fuzzing.md
	@scripts/fuzz-hours.sh "$$(date -u +%F)" .cache/fuzz/slices.txt && rm .cache/fuzz/slices.txt

.PHONY: bundle
bundle: image ## pack all that a machine needs without installing anything into out/pvdrm-bundle.tar.xz
	@GO="$(GO)" LDFLAGS="$(LDFLAGS) -X main.version=$(VERSION)" scripts/bundle.sh out/pvdrm-bundle.tar.xz

.PHONY: distributions
distributions: ## run make demo and make test in a fresh root of each of SUITES (bookworm trixie; also resolute); as root
	@scripts/distributions.sh $(SUITES)

.PHONY: clean
clean: ## remove what was built here
	@rm -rf bin out

#!/bin/sh
# Builds the programs in tests/clients/nvcc with nvcc's defaults, so with NVIDIA's static runtime in them, into a
# directory: cuda-clients.sh DIRECTORY. NVCC names the compiler, with its options. Without one it prints that and makes nothing.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)/tests
nvcc=${NVCC:-nvcc}
if ! command -v "${nvcc%% *}" >/dev/null; then
	rm -rf "$1"
	echo "cuda-clients.sh: no nvcc (on Debian: nvidia-cuda-toolkit of the component non-free, or NVCC=/path/to/nvcc)" >&2
	exit 0
fi
rm -rf "$1"
mkdir -p "$1"
cd "$1"
for source in "$here"/clients/nvcc/*.cu; do
	name=$(basename "$source" .cu)
	case $name in
	two_files_kernel) ;;
	two_files) $nvcc -o $name "$source" "$here/clients/nvcc/two_files_kernel.cu" ;;
	children | relaunch) $nvcc -rdc=true -o $name "$source" -lcudadevrt ;;
	waiting) $nvcc -rdc=true -DCUDA_FORCE_CDP1_IF_SUPPORTED -D__CDPRT_SUPPRESS_SYNC_DEPRECATION_WARNING -o $name "$source" -lcudadevrt ;;
	library) $nvcc -shared -Xcompiler -fPIC -o lib$name.so "$source" ;;
	*) $nvcc -o "$name" "$source" ;;
	esac
done
"${CC:-gcc}" -O2 -o loads "$here/cudart/static/loads.c" -ldl
cp vector_add stripped
strip stripped
cp liblibrary.so libstripped.so
strip libstripped.so

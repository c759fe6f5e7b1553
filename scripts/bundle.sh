#!/usr/bin/env bash
# Packs what a machine needs on which nothing can be installed into one archive:
# pvdrm, the guest programs, libcuda.so.1 and libcudart.so for programs of CUDA, the
# guest image with its kernel, and QEMU with the libraries, loader and firmware that
# it takes. Unpacked anywhere, by anybody:
#   tar xf pvdrm-bundle.tar.xz && pvdrm-bundle/pvdrm up -- gdev run madd
set -euo pipefail
out=${1:?usage: bundle.sh ARCHIVE}
limit=$((60 << 20)) # bytes
go=${GO:-go}
qemu=$(command -v qemu-system-x86_64) || { echo "bundle: no QEMU; run make deps" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
top=$work/pvdrm-bundle
mkdir -p "$top"/image "$top"/qemu/{bin,lib,modules,share}

# pvdrm opens libcuda where there is one, so it is linked to libc dynamically; without
# cgo it asks for no particular version of it.
CGO_ENABLED=0 GOEXPERIMENT=simd "$go" build -trimpath -buildvcs=false -ldflags "${LDFLAGS:--s -w}" -o "$top/pvdrm" ./cmd/pvdrm
mkdir "$top/guest"
cp bin/guest/* "$top/guest/"
ln "$top/guest/gdev" "$top/guest/pvdrm-run" "$top/"

# The libraries that programs of CUDA find under pvdrm run. They take the glibc of this
# machine or a later one.
mkdir "$top/lib"
for lib in libcuda.so.1 libpvdrm-cuda.so libcudart.so.11.0 libcudart.so.12 libcudart.so.13 libpvdrm-static.so libnvidia-ml.so.1 libpvdrm-nvml.so; do
	cp "bin/lib/$lib" "$top/lib/" || { echo "bundle: make build makes $lib where there is a C compiler; run PVDRM_DEPS=test make deps build" >&2; exit 1; }
done
cp -r bin/lib/cuda-libs "$top/lib/" # for --cuda-libs
if [ -e bin/lib/libgloop.so ]; then cp bin/lib/libgloop.so "$top/lib/"; fi # where there is a C++ compiler
ln -s libcuda.so.1 "$top/lib/libcuda.so"
ln -s libnvidia-ml.so.1 "$top/lib/libnvidia-ml.so"

# The image. Symbols and debugging sections of the kernel are no use to QEMU.
field() { awk -v f="$1" '$1 == f { print $2 }' "$work/image"; }
bin/pvdrm image build >"$work/image"
cp "$(field vmlinuz)" "$top/image/vmlinuz"
cp "$(field initrd)" "$top/image/initrd.gz"
kernel=vmlinuz
if [ "$(field kernel)" != "$(field vmlinuz)" ]; then
	kernel=kernel
	cp "$(field kernel)" "$top/image/kernel"
fi
printf '{"Kernel":"%s","Vmlinuz":"vmlinuz","Initrd":"initrd.gz","Release":"%s","Key":"%s","Size":%d}\n' \
	$kernel "$(field release)" "$(field key)" "$(cat "$top"/image/vmlinuz "$top"/image/initrd.gz | wc -c)" >"$top/image/image.json"

# QEMU. Each object goes under the name by which others ask for it.
cp "$qemu" "$top/qemu/bin/"
moddir=$(dirname "$(find /usr/lib -path '*/qemu/hw-display-virtio-gpu.so' | head -1)" 2>/dev/null || true)
if [ -n "$moddir" ] && [ "$moddir" != . ]; then cp "$moddir"/hw-display-virtio-*.so "$top/qemu/modules/"; fi
ldd "$qemu" "$top"/qemu/modules/*.so | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\/.*ld-linux/ { print $1 }' | sort -u |
	while read -r lib; do cp -L "$lib" "$top/qemu/lib/"; done
for f in bios-256k.bin kvmvapic.bin linuxboot_dma.bin linuxboot.bin multiboot_dma.bin pvh.bin efi-virtio.rom; do
	for dir in /usr/share/qemu /usr/share/seabios /usr/lib/ipxe/qemu; do
		if [ -e "$dir/$f" ]; then cp -L "$dir/$f" "$top/qemu/share/"; break; fi
	done
done
cat >"$top/qemu/qemu-system-x86_64" <<'EOF'
#!/bin/sh
# Runs the QEMU of this folder with its own libraries, wherever the folder is.
dir=$(dirname "$(readlink -f "$0")")
QEMU_MODULE_DIR="$dir/modules" exec "$dir/lib/ld-linux-x86-64.so.2" --library-path "$dir/lib" \
	"$dir/bin/qemu-system-x86_64" -L "$dir/share" "$@"
EOF
chmod +x "$top/qemu/qemu-system-x86_64"
mkdir "$top/licenses"
for p in $(dpkg -S "$(readlink -f "$qemu")" $(ls "$top"/qemu/lib/ | sed 's|^|*/|') 2>/dev/null | cut -d: -f1 | tr -d , | sort -u); do
	if [ -e "/usr/share/doc/$p/copyright" ]; then cp -L "/usr/share/doc/$p/copyright" "$top/licenses/$p"; fi
done

# Programs that name these libraries find a GPU when the pvdrm of the bundle runs them.
check() { # LIBRARY CALL
	printf 'int %s(int *);\nint main(void) { int n = 0; return %s(&n) || n != 1; }\n' "$2" "$2" >"$work/check.c"
	"${CC:-gcc}" -o "$work/check" "$work/check.c" "$top/lib/$1" -Wl,--allow-shlib-undefined
	"$top/pvdrm" run -- "$work/check" || { echo "bundle: a program on $1 of the bundle finds no GPU" >&2; exit 1; }
}
for version in 11.0 12 13; do check libcudart.so.$version cudaGetDeviceCount; done

mkdir -p "$(dirname "$out")"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -c pvdrm-bundle | xz -T2 -6 >"$out"
size=$(stat -c %s "$out")
[ "$size" -le $limit ] || { echo "bundle: $out has $size bytes, more than $limit" >&2; exit 1; }
echo "make bundle: $out, $((size >> 10)) KiB"

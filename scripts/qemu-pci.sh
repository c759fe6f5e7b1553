#!/usr/bin/env bash
# Unpacks a QEMU that has vfio-user-pci, where the host's is older than 11.1, and prints the path of what
# starts it, for --qemu: Debian's unstable suite has one. It takes 60 MB and stays in out/qemu; nothing is
# installed. A mirror has only the newest version of an unstable package, so none can be named here.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$PWD/out/qemu
. scripts/debs.sh
fetch_debs "$dir" sid qemu-system-x86
start=$dir/qemu-system-x86_64
if [ ! -x "$start" ]; then
	loader=$(find "$dir/root" -name ld-linux-x86-64.so.2 -print -quit)
	paths=$(find "$dir/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd :)
	cat >"$start.new" <<END
#!/bin/sh
export QEMU_MODULE_DIR=$dir/root/usr/lib/x86_64-linux-gnu/qemu
exec $loader --library-path $paths $dir/root/usr/bin/qemu-system-x86_64 -L $dir/root/usr/share/qemu -L $dir/root/usr/share/seabios "\$@"
END
	chmod +x "$start.new"
	mv "$start.new" "$start"
fi
"$start" --version >&2
echo "$start"

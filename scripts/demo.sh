#!/usr/bin/env bash
# Boots an unmodified Debian kernel in a virtual machine with a paravirtual GPU
# and runs the Gdev suite in it.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p out
echo "demo: a virtual machine with Debian's kernel and a paravirtual GPU, whose backend is the software GPU of this host"
bin/pvdrm up --console --screenshot out/console.png -- gdev run --all
echo
echo "Shown: an unmodified Debian kernel booted in QEMU, found the render node of its paravirtual GPU, and"
echo "the programs above ran on it through PVDRM, each result checked against a CPU reference in the guest."
echo "The guest's console is in out/console.png. The same on the host, without a machine: bin/pvdrm run -- gdev run --all"

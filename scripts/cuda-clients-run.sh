#!/bin/sh
# Runs what cuda-clients.sh made as local guests: cuda-clients-run.sh DIRECTORY. Each prints NAME: PASS; those
# without a symbol table must be told what to do.
set -eu

pvdrm=$(cd "$(dirname "$0")/.." && pwd)/bin/pvdrm
[ -d "$1" ] || exit 0 # there is no nvcc
cd "$1"
for program in *; do
	case $program in
	lib*.so) set -- ./loads "./$program" ;;
	loads) continue ;;
	*) set -- "./$program" ;;
	esac
	code=0
	out=$("$pvdrm" run -- "$@" 2>&1) || code=$?
	case $program in
	*stripped*) good=$(echo "$out" | grep -c 'nvcc -cudart shared') || true ;;
	*) good=$([ $code -ne 0 ] || echo "$out" | grep -c ': PASS$') || true ;;
	esac
	if [ "${good:-0}" -lt 1 ]; then
		echo "cuda-clients: $program: exit code $code"
		echo "$out"
		exit 1
	fi
	echo "cuda-clients: $program: as expected"
done

#!/usr/bin/env bash
# Runs tests of IGT, the test suite of Linux's DRM drivers, in a virtual machine with PVDRM's device:
# igt.sh [TEST ...], by default those below. It fails if a subtest fails that is not in unoffered.
#
# Debian has the tests in its unstable suite only, and they need the libraries of that suite: 30 MB,
# which stay in out/igt and are installed nowhere. A mirror has only the newest version of an unstable
# package, so none can be named here for good: that is why .ci/run does not run this.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${PVDRM_BIN:-bin}
dir=$PWD/out/igt
[ $# -gt 0 ] || set -- drm_virtgpu core_auth core_getclient core_getversion core_setmaster dumb_buffer kms_atomic kms_properties

# Subtests that need blob resources and context_init, which QEMU's vhost-user-gpu device does not offer.
unoffered='drm_virtgpu@drm-virtgpu-resource-create-blob drm_virtgpu@drm-virtgpu-context-init'

. scripts/debs.sh
fetch_debs "$dir" sid igt-gpu-tools-tests
tests=$dir/root/usr/libexec/igt-gpu-tools
for t; do
	[ -x "$tests/$t" ] || { echo "igt: there is no test $t in $tests" >&2; exit 1; }
done
flags=()
while read -r file; do flags+=(--copy "$file"); done < <(with_libraries "$dir"/root "${@/#/$tests/}")

log=$dir/log
"$bin/pvdrm" up --gl on "${flags[@]}" -- sh -c "
	export IGT_FORCE_DRIVER=virtio_gpu
	for t in $*; do echo \"igt: \$t\"; ./ld-linux-x86-64.so.2 --library-path . ./\$t 2>&1
		case \$? in 0 | 77 | 98) ;; *) echo 'Subtest all: CRASH ()' ;; esac # success, skip, failure: told by subtest
	done" >"$log"
passed=0 failed=0 lacking=0 skipped=0
while read -r test name result; do
	case $result in
	SUCCESS) passed=$((passed + 1)) ;;
	SKIP) skipped=$((skipped + 1)) ;;
	*)
		if [[ " $unoffered " == *" $test@$name "* ]]; then
			result="$result (needs what QEMU's device does not offer)" lacking=$((lacking + 1))
		else
			failed=$((failed + 1))
		fi
		;;
	esac
	printf '%-60s %s\n' "$test@$name" "$result"
done < <(sed -n -e 's/^igt: //;t test' -e 's/^Subtest \([^ ]*\): \([A-Z]*\) .*/\1 \2/;t result' -e 'd;:test' -e 'h;d;:result' -e 'G;s/\(.*\)\n\(.*\)/\2 \1/p' "$log")
echo "igt: $passed subtests passed, $skipped were skipped, $lacking need what is not offered, $failed failed; all output is in $log"
[ "$passed" -gt 0 ] && [ "$failed" = 0 ]

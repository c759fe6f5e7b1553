#!/usr/bin/env bash
# Runs tests of IGT, the test suite of Linux's DRM drivers, in a virtual machine with PVDRM's device:
# igt.sh [TEST ...], by default those below. It fails if a subtest fails that is not in unoffered.
#
# Debian has the tests in its unstable suite only, and they need that suite's libraries. Apt fetches
# them, 30 MB, and checks them by the archive's signature; they stay in out/igt and are installed nowhere.
# A mirror has only the newest version of an unstable package, so none can be named here for good:
# that is why this is not among what .ci/run runs.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${PVDRM_BIN:-bin}
dir=$PWD/out/igt
[ $# -gt 0 ] || set -- drm_virtgpu core_auth core_getclient core_getversion core_setmaster dumb_buffer kms_atomic kms_properties

# Subtests that need blob resources and context_init, which QEMU's vhost-user-gpu device does not offer.
unoffered='drm_virtgpu@drm-virtgpu-resource-create-blob drm_virtgpu@drm-virtgpu-context-init'

fetch() {
	command -v apt-get dpkg-deb >/dev/null || { echo "igt: this needs Debian's apt-get and dpkg-deb" >&2; exit 1; }
	local new=$dir.new mirror options
	rm -rf "$new"
	mkdir -p "$new"/{lists,cache/archives}/partial "$new"/root
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' | sed -n 's|^\(.*/debian/\) main$|\1|p' | head -n 1)
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian/} sid main" >"$new"/sources.list
	options=(-q -o Acquire::Retries=3 -o Acquire::Languages=none -o Dir::Etc::sourcelist="$new"/sources.list -o Dir::Etc::sourceparts=/dev/null
		-o Dir::State::lists="$new"/lists -o Dir::State::status=/dev/null -o Dir::Cache="$new"/cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
	[ "$(id -u)" != 0 ] || options+=(-o APT::Sandbox::User=root)
	echo "igt: fetching igt-gpu-tools-tests of Debian's unstable suite"
	apt-get "${options[@]}" update >"$new"/log 2>&1 || { cat "$new"/log >&2; exit 1; }
	local packages
	packages=$(apt-get "${options[@]}" install --simulate --no-install-recommends igt-gpu-tools-tests | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p')
	(cd "$new"/cache && apt-get "${options[@]}" download $packages) >"$new"/log 2>&1 || { cat "$new"/log >&2; exit 1; }
	for deb in "$new"/cache/*.deb; do dpkg-deb --extract "$deb" "$new"/root; done
	rm -rf "$new"/{cache,lists}
	rm -rf "$dir"
	mv "$new" "$dir"
}
[ -d "$dir" ] || fetch

tests=$dir/root/usr/libexec/igt-gpu-tools
loader=$(echo "$dir"/root/usr/lib*/ld-linux-x86-64.so.2 | cut -d' ' -f1)
copies=("$loader")
for t; do
	[ -x "$tests/$t" ] || { echo "igt: there is no test $t in $tests" >&2; exit 1; }
	copies+=("$tests/$t")
	while read -r file; do copies+=("$file"); done < <(
		"$loader" --library-path "$dir/root/usr/lib/x86_64-linux-gnu" --list "$tests/$t" | sed -n 's/.* => \(\/.*\) (.*/\1/p')
done
flags=()
while read -r file; do flags+=(--copy "$file"); done < <(printf '%s\n' "${copies[@]}" | sort -u)

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

#!/usr/bin/env bash
# Runs `make demo` and `make test` as a newcomer would, in a freshly bootstrapped root of each suite:
# distributions.sh [SUITE...]. The suites are Debian's bookworm and trixie unless others are named;
# Ubuntu's resolute (26.04) needs the package ubuntu-keyring. TARGETS names other targets of make than
# "demo test". The script tries the commit that is checked out. It takes root, debootstrap, 5 GB for
# each suite in .cache/distributions, and an hour or more.
#
# A root has a view of its own of mounts and processes, and nothing of this host but its network,
# devices and kernel. Its folder goes when a suite has passed, and stays when it has failed.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "distributions: run it as root: it bootstraps roots and changes into them" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "distributions: apt-get install debootstrap" >&2; exit 1; }
[ $# -gt 0 ] || set -- bookworm trixie
: "${TARGETS:=demo test}"
cache=$PWD/.cache/distributions
mkdir -p "$cache"

# inside ROOT COMMAND... runs a command in a root, in namespaces that end with it.
inside() {
	local root=$1
	shift
	unshare --mount --pid --fork --kill-child bash -euc '
		root=$1; shift
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount --rbind /sys "$root/sys"
		mount -t tmpfs tmpfs "$root/run"
		chroot "$root" env HOME=/root TMPDIR=/tmp XDG_RUNTIME_DIR=/run PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" || exit' \
		- "$root" "$@"
}

# try SUITE bootstraps a root and runs the targets there.
try() {
	local suite=$1 root=$cache/$1 target mirror=http://deb.debian.org/debian options=() script=()
	case $suite in # debootstrap of Debian may not know the suite: gutsy's script serves all of Ubuntu's
	resolute)
		mirror=http://archive.ubuntu.com/ubuntu script=(gutsy)
		options=(--components=main,universe --keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg)
		;;
	esac
	rm -rf --one-file-system "$root"
	debootstrap --variant=minbase --include=ca-certificates,git,make "${options[@]}" "$suite" "$root" "${MIRROR:-$mirror}" \
		"${script[@]}" >"$cache/$suite.log" 2>&1 || { tail "$cache/$suite.log" >&2; return 1; }
	cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
	if [ -s /etc/ssl/certs/ca-certificates.crt ]; then # a proxy may have an authority of its own
		cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
	fi
	# The tests want a repository: they list its files.
	git clone -q --no-hardlinks "$PWD" "$root/root/pvdrm"
	git -C "$root/root/pvdrm" checkout -q "$(git rev-parse HEAD)"
	for target in $TARGETS; do
		local start=$SECONDS
		echo "distributions: $suite: make $target"
		inside "$root" make -C /root/pvdrm "$target" >"$cache/$suite.$target.log" 2>&1 </dev/null ||
			{ tail -n 40 "$cache/$suite.$target.log" >&2; echo "distributions: $suite: make $target failed; all of it: $cache/$suite.$target.log" >&2; return 1; }
		echo "distributions: $suite: make $target passed in $((SECONDS - start)) s"
	done
	rm -rf --one-file-system "$root"
}

failed=
for suite; do try "$suite" || failed="$failed $suite"; done
[ -z "$failed" ] || { echo "distributions: failed:$failed" >&2; exit 1; }
echo "distributions: make $TARGETS passed on $*"

#!/bin/sh
# Installs the programs that PVDRM needs to be built, tested and shown, on Debian 12 or later and
# Ubuntu 26.04: QEMU 10, Go, make, git and CA certificates; with PVDRM_DEPS=gl also virglrenderer,
# Mesa and a C compiler; with PVDRM_DEPS=test or dev also a C++ compiler, clang, systemd, and libvirt's
# driver for QEMU. It prints and does nothing if all of them are installed. As root it installs; as
# another user it asks for sudo at a terminal, and elsewhere prints the commands and fails.
set -eu

here=$(dirname "$0")
min_qemu=10 # 7.2, which Debian 12 has, refuses vhost-user devices without KVM
min_go=21   # the first go command that fetches the version that go.mod asks for
backport_go=golang-1.23-go

# have_qemu and have_go look at versions, since older ones may be installed.
have_qemu() {
	major=$(qemu-system-x86_64 --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\)\..*/\1/p')
	[ "${major:-0}" -ge "$min_qemu" ]
}
have_go() {
	go=$("$here/go.sh")
	minor=$(cd / && GOTOOLCHAIN=local "$go" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	[ "${minor:-0}" -ge "$min_go" ]
}

have_gl() { # what renders for the OpenGL of guests, and draws to compare with
	libs=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
	for lib in libvirglrenderer.so.1 libEGL.so.1 libEGL_mesa.so.0 libOpenGL.so.0 libGLESv2.so.2; do
		case $libs in *"$lib"*) ;; *) return 1 ;; esac
	done
	[ -n "$(find /usr/lib \( -name swrast_dri.so -o -name 'libgallium-*.so' \) -print -quit 2>/dev/null)" ]
}

plain='' # packages of the release itself
newer='' # packages that Debian 12 has in its backports only
command -v make >/dev/null || plain="$plain make"
command -v git >/dev/null || plain="$plain git"
[ -s /etc/ssl/certs/ca-certificates.crt ] || plain="$plain ca-certificates"
case ${PVDRM_DEPS:-} in
dev | test | gl) # the race detector links with a C compiler, libcuda.so.1 in guests and its clients are compiled by one
	command -v gcc >/dev/null && [ -e /usr/include/stdio.h ] || plain="$plain gcc libc6-dev"
	have_gl || plain="$plain libvirglrenderer1 libegl1 libopengl0 libgles2 libgl1-mesa-dri"
	;;
esac
case ${PVDRM_DEPS:-} in
dev | test)
	command -v g++ >/dev/null || plain="$plain g++" # our headers are tested as C++ too
	command -v clang-16 >/dev/null || command -v clang >/dev/null || plain="$plain clang" # it compiles GLoop's header for a GPU
	command -v systemd-analyze >/dev/null || plain="$plain systemd" # it verifies the units; nothing is started
	command -v virt-qemu-run >/dev/null || plain="$plain libvirt-daemon-driver-qemu" # it starts the domain of the docs; no daemon is
	;;
esac
have_qemu || newer="$newer qemu-system-x86"
have_go || newer="$newer go"
[ -n "$plain$newer" ] || exit 0

codename=$(. /etc/os-release 2>/dev/null && echo "${ID:-}-${VERSION_CODENAME:-}") || true
case $codename in
debian-bookworm) newer=$(echo "$newer" | sed "s/ go$/ $backport_go/") ;;
debian-* | ubuntu-*) newer=$(echo "$newer" | sed 's/ go$/ golang-go/') ;;
*)
	echo "deps: missing:$plain$newer" >&2
	echo "deps: this is neither Debian nor Ubuntu, so install them in its own way: QEMU $min_qemu.0 or later, Go 1.$min_go or later" >&2
	exit 1
	;;
esac
case $codename:$newer in
ubuntu-jammy:*qemu* | ubuntu-noble:*qemu*)
	echo "deps: missing:$plain$newer" >&2
	echo "deps: this release of Ubuntu has an older QEMU than $min_qemu.0: install that by hand and put qemu-system-x86_64 into PATH, or use Ubuntu 26.04" >&2
	exit 1
	;;
esac
if ! command -v apt-get >/dev/null; then
	echo "deps: missing:$plain$newer, and there is no apt-get to install them with" >&2
	exit 1
fi

# The commands, one a line, as a person would type them.
install='DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends'
commands='apt-get update'
target=
if [ "$codename" = debian-bookworm ] && [ -n "$newer" ]; then
	target=' -t bookworm-backports'
	releases=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages')
	if ! echo "$releases" | grep -q ' bookworm-backports$'; then
		mirror=$(echo "$releases" | sed -n 's/ bookworm$//p' | head -n 1)
		line="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian/} bookworm-backports main"
		commands="echo '$line' > /etc/apt/sources.list.d/bookworm-backports.list
$commands"
	fi
fi
[ -z "$plain" ] || commands="$commands
$install$plain"
[ -z "$newer" ] || commands="$commands
$install$target$newer"

echo "deps: missing:$plain$newer" >&2
if [ "$(id -u)" = 0 ]; then
	run=sh
elif [ -t 0 ] && [ -t 2 ] && command -v sudo >/dev/null; then
	printf 'deps: these commands install them:\n%s\ndeps: run them with sudo? [y/N] ' "$commands" >&2
	read -r answer
	case $answer in
	[yY]*) run='sudo sh' ;;
	*) exit 1 ;;
	esac
else
	printf 'deps: as root, run:\n%s\n' "$commands" >&2
	exit 1
fi

echo "deps: installing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! $run -euc "$commands" >"$log" 2>&1 </dev/null; then
	cat "$log" >&2
	echo "deps: the commands above failed; they were:" >&2
	echo "$commands" >&2
	exit 1
fi
have_qemu || { echo "deps: installed, but there is still no QEMU $min_qemu in PATH" >&2; exit 1; }
have_go || { echo "deps: installed, but there is still no Go 1.$min_go in PATH or /usr/lib" >&2; exit 1; }

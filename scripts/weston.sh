#!/usr/bin/env bash
# Shows a Wayland desktop of a guest: boots the image mesa, starts Debian's weston on its screen, and a program in
# it that draws with OpenGL, and saves a picture of the screen: weston.sh [FILE.png], by default out/weston.png.
# It fails unless weston draws with virgl and what is shown moves.
#
# The image does not have weston, for which 120 packages more would be needed. Of these, 52 MB,
# what weston reads is copied into the guest; they stay in out/weston and are installed nowhere.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${PVDRM_BIN:-bin}
picture=${1:-out/weston.png}
dir=$PWD/out/weston

. scripts/debs.sh
fetch_debs "$dir" '' weston
cd "$dir"/root
lib=usr/lib/x86_64-linux-gnu
{
	with_libraries "$PWD" usr/bin/weston{,-simple-egl} $lib/weston-desktop-shell $lib/libweston-*/{drm-backend,gl-renderer}.so $lib/weston/desktop-shell.so
	find usr/share/X11/xkb usr/share/weston
} | sed "s|^$PWD/||" | sort -u | tar -chf "$dir"/guest.tar --no-recursion -T -
modules=$(dirname $lib/libweston-*/drm-backend.so)
cd - >/dev/null

cat >"$dir"/guest.sh <<-END
	mkdir -m 700 /w /tmp/run && tar -xf guest.tar -C /w || exit
	lib=/w/$lib
	export LD_LIBRARY_PATH=\$lib:/w/lib/x86_64-linux-gnu:\$lib/weston
	export WESTON_MODULE_MAP="drm-backend.so=/w/$modules/drm-backend.so;gl-renderer.so=/w/$modules/gl-renderer.so;desktop-shell.so=\$lib/weston/desktop-shell.so"
	export WESTON_DATA_DIR=/w/usr/share/weston XKB_CONFIG_ROOT=/w/usr/share/X11/xkb XDG_RUNTIME_DIR=/tmp/run
	printf '[shell]\nclient=%s\n[input-method]\npath=\n' \$lib/weston-desktop-shell >/tmp/weston.ini
	/w/usr/bin/weston --backend=drm-backend.so --tty=1 --continue-without-input --socket=wayland-1 --config=/tmp/weston.ini >/tmp/log 2>&1 &
	weston=\$!
	while [ ! -S /tmp/run/wayland-1 ]; do
		kill -0 \$weston || { cat /tmp/log; exit 1; }
		sleep 0.2
	done
	grep 'GL renderer:' /tmp/log
	WAYLAND_DISPLAY=wayland-1 /w/usr/bin/weston-simple-egl >>/tmp/log 2>&1 &
	echo started
	read line || { cat /tmp/log; exit 1; }
END

XDG_RUNTIME_DIR=$(mktemp -d) # so that the guest below is the only one that pvdrm screenshot sees
export XDG_RUNTIME_DIR
cleanup() {
	if [ -n "${up_PID:-}" ]; then kill "$up_PID" && wait "$up_PID" || true; fi 2>/dev/null
	rm -rf "$XDG_RUNTIME_DIR"
}
trap cleanup EXIT
coproc up { exec "$bin/pvdrm" up --image mesa --gl on --resolution 800x600 --copy "$dir"/guest.tar --copy "$dir"/guest.sh -- sh guest.sh; }
from=${up[0]} to=${up[1]} pid=$up_PID renderer=
while read -r line <&"$from" && [ "$line" != started ]; do
	echo "$line"
	renderer=$line
done
if [[ $renderer != *"GL renderer: virgl"* ]]; then
	echo "weston: it does not draw with virgl" >&2
	exit 1
fi
# Frames of the program change a part of the picture; nothing else does but the clock.
last= moved=0
for try in {1..60}; do
	"$bin/pvdrm" screenshot "$picture"
	sum=$(sha256sum <"$picture")
	[ -z "$last" ] || [ "$sum" = "$last" ] || moved=$((moved + 1))
	[ $moved -lt 5 ] || break
	last=$sum
	sleep 0.3
done
if [ $moved -lt 5 ]; then
	echo "weston: in $try pictures of the screen only $moved changes were seen; the last one is $picture" >&2
	exec {to}>&- # the guest prints weston's log
	cat <&"$from"
	exit 1
fi
echo >&"$to"
unset up_PID
wait "$pid"
echo "Shown: Debian's weston, unmodified, composed a desktop in a virtual machine, and PVDRM rendered it. The last picture is $picture."

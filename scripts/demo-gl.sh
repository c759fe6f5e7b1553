#!/usr/bin/env bash
# Renders scenes with unmodified Mesa in a virtual machine, off screen and on its screen,
# and compares the pictures with those of llvmpipe on this host: demo-gl.sh [DIRECTORY FOR PICTURES].
# PVDRM_BIN names a directory with pvdrm other than bin.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${PVDRM_BIN:-bin}
out=${1:-out}
mkdir -p "$out"

scenes='triangle textures shader cubes'
size=640x480
pointed='-pointer 300,200 cubes' # once more, on a screen of another size
pointed_size=800x600 # which the screen prefers
# Renderers round differently: what counts as the same picture.
tolerance=2 # of 255, in a channel
outside=0.01 # percent of pixels that may differ by more: those at edges

XDG_RUNTIME_DIR=$(mktemp -d) # so that the guest below is the only one that pvdrm screenshot sees
export XDG_RUNTIME_DIR
cleanup() {
	if [ -n "${up_PID:-}" ]; then kill "$up_PID" && wait "$up_PID" || true; fi 2>/dev/null
	rm -rf "$XDG_RUNTIME_DIR"
}
trap cleanup EXIT

same() { "$bin/guest/glscene" compare -tolerance "$tolerance" -outside "$outside" "$1" "$2"; }

echo "demo-gl: on this host, on the processors"
LIBGL_ALWAYS_SOFTWARE=1 "$bin/guest/glscene" -size $size -out "$out/gl-%-host.png" $scenes
LIBGL_ALWAYS_SOFTWARE=1 "$bin/guest/glscene" -size $pointed_size -out "$out/gl-pointer-host.png" $pointed

echo "demo-gl: in a virtual machine, whose virtio-gpu device PVDRM is"
coproc up {
	exec "$bin/pvdrm" up --image mesa --gl on --resolution $pointed_size -- sh -c "
		glscene -size $size -out /tmp/%.png $scenes || exit
		for s in $scenes; do echo picture \$s \$(base64 /tmp/\$s.png | tr -d '\n'); done
		glscene -screen -mode $size -hold $scenes && exec glscene -screen -hold $pointed"
}
from=${up[0]} to=${up[1]} pid=$up_PID
drawn=0 shown=0
while read -r line <&"$from"; do
	read -r name rest <<<"$line"
	case $line in
	"picture "*)
		read -r name text <<<"$rest"
		base64 -d <<<"$text" >"$out/gl-$name-guest.png"
		echo "$name, off screen: $(same "$out/gl-$name-host.png" "$out/gl-$name-guest.png")"
		drawn=$((drawn + 1))
		;;
	*"on the screen"*)
		echo "$line"
		[[ $line != *"of $pointed_size"* ]] || name=pointer
		for try in {1..30}; do # the picture is on its way
			"$bin/pvdrm" screenshot "$out/gl-$name-screen.png"
			if answer=$(same "$out/gl-$name-host.png" "$out/gl-$name-screen.png" 2>&1); then break; fi
			if [ "$try" = 30 ]; then echo "demo-gl: the screen shows something else: $answer" >&2; exit 1; fi
			sleep 0.2
		done
		echo "$name, on the screen: $answer"
		shown=$((shown + 1))
		echo >&"$to"
		;;
	*)
		echo "$line"
		if [[ $line == *"ms/frame"* && $line != *"on virgl ("* ]]; then
			echo "demo-gl: this is not rendered by PVDRM: the renderer is not virgl" >&2
			exit 1
		fi
		;;
	esac
done
unset up_PID
wait "$pid"
want=$(wc -w <<<"$scenes")
if [ "$drawn" != "$want" ] || [ "$shown" != $((want + 1)) ]; then
	echo "demo-gl: of $want scenes $drawn came off screen and $shown on it" >&2
	exit 1
fi
echo
echo "Shown: Debian's own Mesa, unmodified, ran on virgl in a virtual machine, and PVDRM rendered for it on this host. Each of"
echo "$want scenes, off screen and on the guest's screen, is the picture that llvmpipe draws here: no channel differs by more"
echo "than $tolerance of 255 but in $outside % of the pixels. So is a screen of $pointed_size with a pointer. The pictures are $out/gl-*.png."

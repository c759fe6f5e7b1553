#!/usr/bin/env bash
# Runs what fuzz-build.sh made, so many programs at once for so many seconds:
# fuzz-run.sh DIR SECONDS [PROGRAMS]. It needs no Go toolchain.
#
# Each program runs one target for a slice. The next is always the target that has had
# least of its share; one that found new code in its last slice counts as having had
# less. The corpus stays in DIR/corpus, inputs that fail go to DIR/crashers, and
# DIR/slices.txt gets a line for each slice: target, processor-seconds, executions,
# new inputs, findings.
set -euo pipefail
dir=$(cd "$1" && pwd) seconds=$2 programs=${3:-$(nproc)}
slice=$((seconds < 1200 ? seconds / 4 : 300))
mkdir -p "$dir/corpus" "$dir/crashers" "$dir/log"
: >>"$dir/slices.txt"

# run PKG TARGET SECONDS: one slice, and its line.
run() {
	local pkg=$1 name=$2 time=$3 log times rc=0
	log=$(mktemp "$dir/log/$name.XXXXXX")
	times=$log.times
	cd "$dir/src/$pkg"
	TIMEFORMAT='%U %S'
	{ time GOMAXPROCS=2 "$dir/bin/${pkg//\//-}.test" -test.run '^$' -test.fuzz "^$name\$" -test.fuzzcachedir "$dir/corpus/$pkg" \
		-test.parallel 1 -test.fuzzminimizetime 50x -test.fuzztime "${time}s" >"$log" 2>&1 || rc=$?; } 2>"$times"
	local cpu execs new found=0 input
	cpu=$(awk '{ print int($1 + $2) }' "$times")
	execs=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$log" | tail -1)
	new=$(sed -n 's/.*new interesting: \([0-9]*\).*/\1/p' "$log" | tail -1)
	input=$(sed -n 's/.*Failing input written to \(.*\)$/\1/p' "$log" | tail -1)
	if [ -n "$input" ] && [ -f "$input" ]; then # out of the way of the next slice
		found=1
		mkdir -p "$dir/crashers/$pkg/$name"
		mv "$input" "$dir/crashers/$pkg/$name/"
		grep -v '^fuzz: elapsed' "$log" | head -c 20000 >"$dir/crashers/$pkg/$name/$(basename "$input").log"
	elif [ "$rc" != 0 ] && ! grep -q 'context deadline exceeded' "$log"; then
		found=1 # it did not even begin
		mkdir -p "$dir/crashers/$pkg/$name"
		head -c 20000 "$log" >"$dir/crashers/$pkg/$name/$(basename "$log").log"
	fi
	rm -f "$log" "$times"
	echo "$pkg $name $cpu ${execs:-0} ${new:-0} $found" >>"$dir/slices.txt"
}

# next names the target that has had least: its seconds by its weight.
next() {
	awk '
		FILENAME ~ /targets/ { weight[$1 " " $2] = $3; next }
		FILENAME ~ /begun/ { had[$1 " " $2] += $3; next }
		{ recent[$1 " " $2] = $5; found[$1 " " $2] += $6 }
		END {
			for (t in weight) {
				if (found[t] >= 5) continue # it waits for somebody to look
				x = (had[t] + 1) / weight[t] / (recent[t] > 0 ? 2 : 1)
				if (best == "" || x < least || x == least && t < best) { best = t; least = x }
			}
			print best
		}' "$dir/targets.txt" "$dir/begun.txt" "$dir/slices.txt"
}

: >"$dir/begun.txt"
end=$((SECONDS + seconds))
while left=$((end - SECONDS)) && [ "$left" -gt 5 ]; do
	while [ "$(jobs -rp | wc -l)" -lt "$programs" ]; do
		read -r pkg name < <(next)
		[ -n "$name" ] || break
		time=$((left < slice ? left : slice))
		echo "$pkg $name $time" >>"$dir/begun.txt"
		run "$pkg" "$name" "$time" &
	done
	[ "$(jobs -rp | wc -l)" -gt 0 ] || break
	wait -n || true
done
wait
rm -f "$dir/begun.txt"
awk '{ t = $1 " " $2; cpu[t] += $3; execs[t] += $4; new[t] += $5; found[t] += $6; c += $3; e += $4 }
	END { for (t in cpu) printf "%-50s %8d s %12d executions %6d new %3d findings\n", t, cpu[t], execs[t], new[t], found[t]
		printf "%-50s %8d s %12d executions\n", "all", c, e }' "$dir/slices.txt" | sort

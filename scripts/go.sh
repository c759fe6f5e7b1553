#!/bin/sh
# Prints the go command to use: the newest of those that are installed, since
# Debian's backports put theirs beside the suite's own, or, where that is older than go.mod
# asks for, the one that it fetches. A go command of 1.21 or later fetches by itself, but that of
# Debian 13 panics before it does so where GOEXPERIMENT names what it does not know.
best=go
newest=0
for g in go /usr/local/go/bin/go /usr/lib/go-1.*/bin/go; do
	command -v "$g" >/dev/null 2>&1 || continue
	minor=$(cd / && GOTOOLCHAIN=local "$g" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	if [ "${minor:-0}" -gt "$newest" ]; then
		newest=$minor
		best=$g
	fi
done
needed=$(sed -n 's/^go 1\.\([0-9]*\).*/\1/p' "$(dirname "$0")/../go.mod")
if [ "$newest" -lt "${needed:-0}" ]; then
	root=$(cd "$(dirname "$0")/.." && GOEXPERIMENT='' "$best" env GOROOT 2>/dev/null)
	[ ! -x "$root/bin/go" ] || best=$root/bin/go
fi
echo "$best"

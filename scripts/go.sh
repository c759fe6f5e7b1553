#!/bin/sh
# Prints the go command to use: the newest of those that are installed, since
# Debian's backports put theirs beside the suite's own. go.mod names the version
# that is needed; a go command of 1.21 or later fetches it by itself (not here,
# where only its own version is asked for).
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
echo "$best"

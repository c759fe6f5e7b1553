#!/usr/bin/env bash
# Adds slices of scripts/fuzz-run.sh to the account in tests/fuzz/hours.txt and writes
# the table in docs/fuzzing.md from it: fuzz-hours.sh DATE [SLICES...]
set -euo pipefail
date=$1
shift
account=tests/fuzz/hours.txt doc=docs/fuzzing.md
new=$(mktemp) table=$(mktemp)
trap 'rm -f "$new" "$table"' EXIT
{
	echo '# What each target has run: package, target, processor-seconds, executions, findings, last day.'
	awk -v date="$date" '
		/^#/ { next }
		FILENAME == ARGV[1] { t = $1 " " $2; n[t]; next }
		FILENAME == ARGV[2] { t = $1 " " $2; n[t]; cpu[t] += $3; runs[t] += $4; found[t] += $5; last[t] = $6; next }
		{ t = $1 " " $2; n[t]; cpu[t] += $3; runs[t] += $4; found[t] += $6; last[t] = date }
		END { for (t in n) print t, cpu[t] + 0, runs[t] + 0, found[t] + 0, last[t] == "" ? "-" : last[t] }' \
		tests/fuzz/targets.txt "$account" "$@" | sort
} >"$new"
cp "$new" "$account"
awk '
	/^#/ { next }
	{ printf "| %s | %s | %.2f | %d | %d | %s |\n", $1, $2, $3 / 3600, $4, $5, $6; cpu += $3; runs += $4; found += $5 }
	END { printf "| all | | %.2f | %d | %d | |\n", cpu / 3600, runs, found }' "$account" >"$table"
awk -v table="$table" '
	/^\| package/ { print; getline; print; while ((getline line <table) > 0) print line; skip = 1; next }
	skip && /^\|/ { next }
	{ skip = 0; print }' "$doc" >"$new"
cp "$new" "$doc"

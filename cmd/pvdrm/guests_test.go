package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
	"pvdrm/vmm"
)

func TestGuestsPlan(t *testing.T) {
	plan, err := (&guestsFlags{count: 2, weights: []string{"50", "30"}, caps: []string{"0", "12.5"}, reserves: []string{"40", "0"}, names: []string{"a", "b"},
		classes: []string{"latency", "batch"}, priorities: []string{"0", "7"}, slas: []string{"50ms", "0"}}).plan()
	require.NoError(t, err)
	require.Equal(t, []entitled{
		{name: "a", weight: 50, reserve: 40, service: service{class: sched.Latency, sla: 50 * time.Millisecond}},
		{name: "b", weight: 30, cap: 12.5, service: service{priority: 7}},
	}, plan)
	plan, err = (&guestsFlags{count: 2}).plan()
	require.NoError(t, err)
	require.Equal(t, []entitled{{name: "guest-1", weight: 1}, {name: "guest-2", weight: 1}}, plan)
	for why, f := range map[string]guestsFlags{
		"1 to 64":       {count: 0},
		"2 values":      {count: 3, weights: []string{"1", "2"}},
		"not a number":  {count: 2, weights: []string{"1", "0"}},
		"cap too large": {count: 2, caps: []string{"101", "0"}},
		"cap no number": {count: 2, caps: []string{"NaN", "0"}},
		"too much":      {count: 2, reserves: []string{"60", "50"}},
		"no class":      {count: 2, classes: []string{"fast", "batch"}},
		"no priority":   {count: 2, priorities: []string{"-1", "0"}},
		"no time":       {count: 2, slas: []string{"50", "0"}},
		"both called x": {count: 2, names: []string{"x", "x"}},
	} {
		_, err := f.plan()
		require.ErrorAs(t, err, new(usageError), why)
	}
}

func TestUpPlan(t *testing.T) {
	several, one := guestsFlags{count: 2}, guestsFlags{count: 1, names: []string{"a"}}
	for why, err := range map[string]error{
		"no program": second((&upFlags{guests: several}).plan(nil)),
		"a picture":  second((&upFlags{guests: several, screen: screenFlags{screenshot: "x.png", display: vmm.NoDisplay}}).plan([]string{"gdev"})),
		"a window":   second((&upFlags{guests: several, screen: screenFlags{display: "gtk"}}).plan([]string{"gdev"})),
		"one name":   second((&upFlags{guests: one}).plan(nil)),
	} {
		require.ErrorAs(t, err, new(usageError), why)
	}
}

func second(_ []entitled, err error) error { return err }

func TestPrefixedLines(t *testing.T) {
	var out bytes.Buffer
	to := &lines{to: &out}
	a, b := &prefixed{to: to, prefix: "a: "}, &prefixed{to: to, prefix: "b: "}
	for _, w := range []struct {
		p    *prefixed
		text string
	}{{a, "on"}, {b, "x\r\ny\n"}, {a, "e\n\ntwo"}, {b, ""}} {
		n, err := w.p.Write([]byte(w.text))
		require.NoError(t, err)
		require.Equal(t, len(w.text), n)
	}
	a.flush()
	b.flush()
	require.Equal(t, "b: x\nb: y\na: one\na: \na: two\n", out.String())

	out.Reset()
	_, err := a.Write(bytes.Repeat([]byte("z"), 3*maxLine))
	require.NoError(t, err)
	require.Equal(t, 3*maxLine, strings.Count(out.String(), "z"), "a line without end is not kept")
	require.Empty(t, a.rest)
}

package rewrite_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Registers that a thread can compute from its place, parameters and addresses of variables are computed before it
// begins or goes on, and not saved; others are saved.
func TestLift(t *testing.T) {
	const loop = "\na: ld.global.u32 %r9, [%d0]; add.u32 %r1, %r1, %r9; setp.ne.u32 %p1, %r1, %r2; @%p1 bra a;"
	for name, c := range map[string]struct {
		define string // of %r2, which is alive in the loop
		lifted bool
	}{
		"place":            {"mov.u32 %r3, %tid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ctaid.x; mad.lo.u32 %r2, %r4, %r5, %r3;", true},
		"number":           {"mov.u32 %r2, 70;", true},
		"address":          {"mov.u32 %r2, there;", true},
		"from memory":      {"ld.global.u32 %r2, [%d0+8];", false},
		"of memory":        {"ld.global.u32 %r3, [%d0+8]; add.u32 %r2, %r3, 1;", false},
		"clock":            {"mov.u32 %r2, %clock;", false},
		"lane":             {"mov.u32 %r2, %laneid;", false},
		"guarded":          {"@%p2 mov.u32 %r2, 70;", false},
		"two values":       {"mov.u32 %r2, 70; @%p2 mov.u32 %r2, 71;", false},
		"of itself":        {"add.u32 %r2, %r2, 1;", false},
		"carry":            {"add.cc.u32 %r2, 1, 2;", false},
		"of what changes":  {"add.u32 %r2, %r1, 1;", false},
		"in braces":        {"{ .reg .u32 %x; mov.u32 %x, 70; mov.u32 %r2, %x; }", false},
		"before its value": {"add.u32 %r2, %r3, 1; mov.u32 %r3, 70;", false},
	} {
		changed, list := suspend(t, kernel(".global .u32 there;", "mov.u32 %r1, 0; @%p2 mov.u32 %r1, 1;"+c.define+loop))
		require.NotEmpty(t, list[0].Twin, list[0].Why)
		require.Equal(t, 1, list[0].Points, name)
		bytes := 8 + 4 + 4 // its point, %r1 and %r2
		if c.lifted {
			bytes = 8 + 4
		}
		require.EqualValues(t, 16+(bytes+7)/8*8*32, list[0].Stride(32, 0), name)
		twin := string(changed[strings.Index(string(changed), list[0].Twin+"("):])
		require.Equal(t, c.lifted, strings.Index(twin, "%r2,") < strings.Index(twin, "nctaid.y"), "%s: %s", name, twin)
	}
}

// A value that is lifted out of a loop of one block is not renamed where the twin has the block several times.
func TestLiftOfLoop(t *testing.T) {
	changed, list := suspend(t, kernel("", `
ld.global.u32 %r1, [%d0];
a: mov.u32 %r2, %tid.x;
mul.lo.u32 %r3, %r2, 3;
add.u32 %r1, %r1, %r3;
setp.lt.u32 %p1, %r1, 100000;
@%p1 bra a;
b: sub.u32 %r1, %r1, %r3;
setp.gt.u32 %p1, %r1, 100;
@%p1 bra b;`))
	require.Equal(t, 2, list[0].Points)
	twin := string(changed[strings.Index(string(changed), list[0].Twin+"("):])
	require.Equal(t, 1, strings.Count(twin, "mul.lo.u32 %r3"), "%s", twin)
	require.Greater(t, strings.Count(twin, "add.u32 %r1, %r1, %r3"), 1, "%s", twin)
}

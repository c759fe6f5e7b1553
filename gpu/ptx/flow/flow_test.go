package flow_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/flow"
)

// body makes the function of a body with eight registers, a predicate and the label end.
func body(t require.TestingT, text string) *ptx.Func {
	source := ".version 8.3\n.target sm_90\n.address_size 64\n.entry k(.param .u64 a)\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<2>;\n.reg .pred %p<2>;\n" + text + "\nend:\nret;\n}\n"
	m, err := ptx.Load("flow.ptx", []byte(source))
	require.NoError(t, err, source)
	return m.Directives[0].(*ptx.Func)
}

// names lists the names of registers.
func names(f *ptx.Func, regs []int32) (list []string) {
	for _, r := range regs {
		list = append(list, f.Regs[r].Name)
	}
	slices.Sort(list)
	return list
}

// at returns the place of the first instruction with an immediate operand.
func at(f *ptx.Func, mark uint64) int32 {
	for k, s := range f.Body {
		if i, ok := s.(*ptx.Instr); ok && i.Op == ptx.OpPmevent && i.Args[0].Value == mark {
			return int32(k)
		}
	}
	return -1
}

func TestLive(t *testing.T) {
	f := body(t, `
ld.param.u64 %d0, [a];
mov.u32 %r0, 1;
mov.u32 %r1, 2;
again:
pmevent 1;
add.u32 %r0, %r0, %r1;
setp.lt.u32 %p0, %r0, 100;
@%p0 mov.u32 %r2, 5;
pmevent 2;
@%p0 bra again;
mov.u32 %r1, %r0;
pmevent 3;
st.global.v2.u32 [%d0+8], {%r1, %r2};
add.cc.u32 %r3, %r0, %r0;
pmevent 4;
addc.u32 %r3, %r3, %r3;
bra end;
pmevent 5;
mov.u32 %r7, %r6;`)
	g := flow.New(nil, f)
	l, err := g.Liveness()
	require.NoError(t, err)
	for mark, want := range map[uint64][]string{
		1: {"%d0", "%r0", "%r1", "%r2"}, // a guard may keep what %r2 was
		2: {"%d0", "%p0", "%r0", "%r1", "%r2"},
		3: {"%d0", "%r0", "%r1", "%r2"},
		4: {"%r3"},
		5: {"%r6"},
	} {
		regs, carry := l.Before(at(f, mark))
		require.Equal(t, want, names(f, regs), "place %d", mark)
		require.Equal(t, mark == 4, carry)
	}
}

func TestLiveUnknown(t *testing.T) {
	_, err := flow.New(nil, body(t, "tcgen05.wait::ld.sync.aligned;")).Liveness()
	require.ErrorIs(t, err, flow.ErrRaw)
}

func TestLoops(t *testing.T) {
	f := body(t, `
bra outer;
never: bra never;
outer: pmevent 1;
inner: pmevent 2;
@%p0 bra inner;
@%p1 bra outer;
pmevent 3;
self: @%p0 bra self;
list: .branchtargets self, end;
brx.idx %r0, list;`)
	g := flow.New(nil, f)
	l := g.Loops()
	block := func(mark uint64) int32 { return g.Of[at(f, mark)] }
	require.Equal(t, []int32{block(1), block(2), block(3) + 1}, l.Heads)
	require.Equal(t, l.Of[block(1)], l.Of[block(2)])
	require.Equal(t, int32(-1), l.Of[block(3)])
	require.NotEqual(t, l.Of[block(1)], l.Of[block(3)+1])
	require.True(t, l.Reached[block(3)])
	require.False(t, l.Reached[1])
}

// random writes a body of random branches.
func random(rng *rand.Rand, blocks int) string {
	var b strings.Builder
	for n := range blocks {
		fmt.Fprintf(&b, "l%d:\n", n)
		for range rng.IntN(3) {
			fmt.Fprintf(&b, "add.u32 %%r%d, %%r%d, 1;\n", rng.IntN(8), rng.IntN(8))
		}
		switch to := rng.IntN(blocks); rng.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "@%%p0 bra l%d;\n", to)
		case 1:
			fmt.Fprintf(&b, "bra l%d;\n", to)
		case 2:
			fmt.Fprintf(&b, "t%d: .branchtargets l%d, l%d, end;\nbrx.idx %%r0, t%d;\n", n, to, rng.IntN(blocks), n)
		}
	}
	return b.String()
}

// What the analyses find of random functions is what paths through them show.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		f := body(t, random(rng, 2+rng.IntN(12)))
		g := flow.New(nil, f)
		loops := g.Loops()
		reach := paths(g)
		heads := map[int32]bool{}
		for _, h := range loops.Heads {
			heads[h] = true
		}
		for b := range g.Blocks {
			require.Equal(t, b == 0 || reach[0][b], loops.Reached[b])
			if !loops.Reached[b] {
				continue
			}
			require.Equal(t, reach[b][b], loops.Of[b] >= 0)
			for c := range g.Blocks {
				if reach[b][b] && loops.Reached[c] && reach[c][c] {
					require.Equal(t, reach[b][c] && reach[c][b], loops.Of[b] == loops.Of[c])
				}
			}
		}
		require.False(t, cyclic(g, heads), "each cycle has a head")
		l, err := g.Liveness()
		require.NoError(t, err)
		for reg := range int32(len(f.Regs)) {
			for b := range g.Blocks {
				regs, _ := l.Before(g.Blocks[b].First)
				require.Equal(t, mayRead(g, int32(b), reg, map[int32]bool{}), slices.Contains(regs, reg))
			}
		}
	}
}

// paths tells which blocks lead to which by an edge at least.
func paths(g *flow.Graph) [][]bool {
	reach := make([][]bool, len(g.Blocks))
	for b := range g.Blocks {
		reach[b] = make([]bool, len(g.Blocks))
		for _, s := range g.Blocks[b].Succs {
			reach[b][s] = true
		}
	}
	for m := range reach {
		for a := range reach {
			for b := range reach {
				reach[a][b] = reach[a][b] || reach[a][m] && reach[m][b]
			}
		}
	}
	return reach
}

// cyclic reports whether blocks that the entry leads to make a cycle without those that are left out.
func cyclic(g *flow.Graph, without map[int32]bool) bool {
	state := map[int32]int{}
	var visit func(b int32) bool
	visit = func(b int32) bool {
		state[b] = 1
		for _, s := range g.Blocks[b].Succs {
			if !without[s] && (state[s] == 1 || state[s] == 0 && visit(s)) {
				return true
			}
		}
		state[b] = 2
		return false
	}
	for b, reached := range g.Loops().Reached {
		if reached && !without[int32(b)] && state[int32(b)] == 0 && visit(int32(b)) {
			return true
		}
	}
	return false
}

// mayRead reports whether a path from a block reads a register before it writes it.
func mayRead(g *flow.Graph, b, reg int32, seen map[int32]bool) bool {
	if seen[b] {
		return false
	}
	seen[b] = true
	read, written := false, false
	g.EachInstr(b, func(_ int32, i *ptx.Instr) {
		i.EachRegister(func(r int32, write bool) {
			read = read || r == reg && !write && !written
		})
		i.EachRegister(func(r int32, write bool) {
			written = written || r == reg && write && i.Guard.Name == ""
		})
	})
	if read || written {
		return read
	}
	return slices.ContainsFunc(g.Blocks[b].Succs, func(s int32) bool { return mayRead(g, s, reg, seen) })
}

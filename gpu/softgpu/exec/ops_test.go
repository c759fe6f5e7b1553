package exec

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
)

// Every instruction of testdata/ops/list.txt is run for lanes of inputs that
// hold the extremes of its types, and must give what an NVIDIA GPU gave:
// testdata/ops/expected.txt, which testdata/ops/record.py writes.

var exportOps = flag.String("export-ops", "", "write the instructions of testdata/ops/list.txt as JSON for record.py to this file")

const opLanes = 64

// op is one instruction to test.
type op struct {
	Key    string   // the instruction and the types of its operands
	Name   string   `json:"-"` // the instruction as written
	Types  []string `json:"-"`
	Result string   `json:"-"`
	PTX    string
	In     []uint64 // four operands for each lane
	tol    float64  // allowed error, 0: none
	abs    bool     // it may also be absolute
}

// expand replaces the first {x,y} outside of operands by each choice; $n stands
// for the choice made by brace n.
func expand(line string) []string {
	open := -1
	for i := range line {
		// Vectors such as {%a, %b} have a space or % behind the brace or comma.
		if line[i] == '{' && !strings.HasPrefix(line[i:], "{%") {
			open = i
			break
		}
	}
	if open < 0 {
		return []string{line}
	}
	end := open + strings.IndexByte(line[open:], '}')
	n := 1 + strings.Count(line[:open], "\x00")
	var out []string
	for choice := range strings.SplitSeq(line[open+1:end], ",") {
		// A mark for each brace that was expanded, so that they can be counted.
		s := line[:open] + "\x00" + choice + line[end+1:]
		out = append(out, expand(strings.ReplaceAll(s, "$"+strconv.Itoa(n), choice))...)
	}
	return out
}

func readOps(t testing.TB) []op {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "ops", "list.txt"))
	require.NoError(t, err)
	var ops []op
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		for _, l := range expand(line) {
			ops = append(ops, makeOp(strings.ReplaceAll(l, "\x00", "")))
		}
	}
	return ops
}

func makeOp(line string) op {
	text, sig, _ := strings.Cut(line, " | ")
	args, res, _ := strings.Cut(sig, "->")
	o := op{Name: strings.TrimSpace(text), Types: strings.Fields(args)}
	o.Key = strings.Join(append([]string{o.Name, "|"}, o.Types...), " ")
	f := strings.Fields(res)
	o.Result = f[0]
	if len(f) == 3 {
		o.abs = f[1] == "~~"
		o.tol, _ = strconv.ParseFloat(f[2], 64)
	}
	o.PTX = opKernel(&o, false)
	o.In = make([]uint64, 4*opLanes)
	for k, typ := range o.Types {
		vals := values(typ, uint64(k))
		for i := range opLanes {
			// Different strides bring different pairs together.
			o.In[4*i+k] = vals[(i*[4]int{1, 7, 13, 19}[k]+k)%len(vals)]
		}
	}
	return o
}

// regType is the declared type of a register for an operand type.
func regType(typ string) string {
	switch strings.TrimPrefix(typ, "dup") {
	case "u8", "s8", "f16", "bf16":
		return "b16"
	case "f16x2", "bf16x2":
		return "b32"
	case "sh", "lane":
		return "u32"
	case "off":
		return "s32"
	case "angle", "tiny":
		return "f32"
	case "tiny64":
		return "f64"
	}
	return strings.TrimPrefix(typ, "dup")
}

func typeBytes(reg string) int {
	n, _ := strconv.Atoi(strings.TrimLeft(reg, "busf"))
	return n / 8
}

// opKernel makes a kernel of the instruction. With odd set, only odd lanes run it.
func opKernel(o *op, odd bool) string {
	var b strings.Builder
	b.WriteString(".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry op(.param .u64 in, .param .u64 out)\n{\n" +
		".reg .b64 %in, %out, %raw;\n.reg .b32 %t, %r;\n.reg .b16 %h0, %h1, %h2, %h3;\n.reg .pred %q;\n" +
		".local .align 16 .b8 loc[16];\n.shared .align 16 .b8 buf[512];\n.reg .b32 %s;\n" +
		"ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n" +
		"mov.u32 %s, buf;\nmad.lo.u32 %s, %t, 8, %s;\n" +
		"mad.wide.u32 %in, %t, 32, %in;\nmad.wide.u32 %out, %t, 8, %out;\n")
	for k, typ := range o.Types {
		r, name := regType(typ), "%"+string("abce"[k])
		fmt.Fprintf(&b, ".reg .%s %s;\n", r, name)
		if r == "pred" {
			fmt.Fprintf(&b, "ld.global.u32 %%r, [%%in+%d];\nsetp.ne.u32 %s, %%r, 0;\n", 8*k, name)
		} else {
			fmt.Fprintf(&b, "ld.global.%s %s, [%%in+%d];\n", r, name, 8*k)
		}
	}
	res := regType(o.Result)
	if o.Result == "u8" || o.Result == "s8" {
		res = "b32"
	}
	fmt.Fprintf(&b, ".reg .%s %%d;\n", res)
	if odd {
		b.WriteString("and.b32 %r, %t, 1;\nsetp.eq.u32 %q, %r, 0;\n@%q bra done;\n")
	}
	b.WriteString(o.Name + ";\n")
	switch {
	case res == "pred":
		b.WriteString("selp.u64 %raw, 1, 0, %d;\n")
	case typeBytes(res) == 2:
		b.WriteString("cvt.u64.u16 %raw, %d;\n")
	case res == "f32":
		b.WriteString("mov.b32 %r, %d;\ncvt.u64.u32 %raw, %r;\n")
	case typeBytes(res) == 4:
		b.WriteString("cvt.u64.u32 %raw, %d;\n")
	default:
		b.WriteString("mov.b64 %raw, %d;\n")
	}
	b.WriteString("st.global.b64 [%out], %raw;\ndone:\nret;\n}\n")
	return b.String()
}

var (
	f32Edges = []uint64{0, 1 << 31, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345,
		1, 0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x3f800001, 0x3f7fffff, 0x3f000000, 0x3fc00000,
		0x40200000, 0x40600000, 0xc0200000, 0x4b000001, 0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000, 0x5f800000, 0x33000000,
		0x33800000, 0x7e800001, 0x437f0000, 0x43800000, 0x47800000, 0x477ff000, 0x1f000000, 0x20000001, 0x4effffff, 0xc3000000}
	f16Edges = []uint64{0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xfe12, 1, 0x8001, 0x3ff, 0x400, 0x8400, 0x7bff, 0xfbff,
		0x3c01, 0x3bff, 0x3800, 0x3e00, 0x4100, 0x4300, 0xc100, 0x6400, 0x6401, 0x5bf8, 0x5c00, 0x0555, 0x1400}
	bf16Edges = []uint64{0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffc1, 1, 0x8001, 0x7f, 0x80, 0x8080, 0x7f7f, 0xff7f,
		0x3f81, 0x3f7f, 0x3f00, 0x3fc0, 0x4020, 0x4060, 0xc020, 0x4300, 0x4380, 0x0101}
)

// inputs are the values of an operand, and the numbers that make them.
type inputs struct {
	v    []uint64
	r    *rand.Rand
	seed uint64
}

func (in *inputs) add(n int, f func() uint64) {
	for range n {
		in.v = append(in.v, f())
	}
}

// values are the inputs of a type: its extremes, then random ones; seed makes
// operands differ.
func values(typ string, seed uint64) []uint64 {
	in := &inputs{r: rand.New(rand.NewPCG(seed, 77)), seed: seed}
	switch typ {
	case "pred":
		in.add(opLanes, func() uint64 { return in.r.Uint64() & 1 })
	case "sh":
		in.v = []uint64{0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 127, 128, 255, 256, 257, 0x10005, 1<<32 - 1, 1 << 31}
		in.add(opLanes-len(in.v), func() uint64 { return uint64(in.r.IntN(66)) })
	case "lane":
		in.add(opLanes, func() uint64 { return uint64(in.r.IntN(32)) })
	case "off":
		in.add(opLanes, func() uint64 { return uint64(uint32(in.r.IntN(20) - 10)) })
	case "angle":
		in.add(opLanes, func() uint64 { return uint64(math.Float32bits((in.r.Float32() - 0.5) * 2 * math.Pi)) })
	case "f32", "tiny", "tiny64", "f64", "f16", "bf16", "f16x2", "bf16x2":
		in.floats(typ)
	default:
		in.integers(typ)
	}
	return in.v
}

func (in *inputs) floats(typ string) {
	switch typ {
	case "f32":
		in.v = append(in.v, f32Edges...)
		in.add(10, func() uint64 { return uint64(math.Float32bits(float32(in.r.NormFloat64() * 100))) })
		in.add(10, func() uint64 { return uint64(in.r.Uint32()) })
		in.add(opLanes-len(in.v), func() uint64 { return uint64(math.Float32bits(float32(in.r.IntN(4000) - 2000))) })
	case "tiny":
		in.v = []uint64{0x3f7fffff, 0x00800000, 0x00ffffff, 0x3f000000, 0x00800001, 0x3f7ffffe, 0x80800000, 0xbf7fffff, 0x01000001, 0x3effffff,
			0x7e800001, 0x7e7fffff, 0x7e800000, 0xfe800001, 0x80000001, 0x00000001, 0x007fffff, 0x3f800000, 0x40000000, 0x3f800001, 0x00400000,
			0x807fffff, 0x81000000, 0x1f800000, 0x20000000, 0x1fffffff, 0x0, 0x7f7fffff, 0x7f000000, 0x3f400000}
		in.add(opLanes-len(in.v), func() uint64 { return in.v[in.r.IntN(30)] ^ uint64(in.r.IntN(4)) })
	case "tiny64":
		for i := range uint64(opLanes) {
			in.v = append(in.v, 0x380ffffffff00000+i<<63+i*0x8000000*uint64(in.r.IntN(3)), 0x3810000000000000-i*i*i*i)
		}
		in.v = in.v[:opLanes]
	case "f64":
		for _, x := range f32Edges[:20] {
			in.v = append(in.v, math.Float64bits(float64(math.Float32frombits(uint32(x)))))
		}
		in.v = append(in.v, 1, 1<<63|1, 1<<52-1, 1<<52, 0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000001, 0xfff8000000001234,
			0x3ff0000000000001, 0x3fefffffffffffff, 0x41e0000000000000, 0xc1e0000000200000, 0x41f0000000000000, 0x43e0000000000000,
			0x43f0000000000000, 0xc3e0000000000000, 0x47efffffe0000000, 0x47effffff0000000, 0x380fffffffffffff, 0x36a0000000000001,
			0x4004000000000000, 0x400c000000000000, 0x40dfffc000000000, 0x40f0000000000000)
		in.add(8, func() uint64 { return math.Float64bits(in.r.NormFloat64() * 1e3) })
		in.add(8, in.r.Uint64)
		in.add(opLanes-len(in.v), func() uint64 { return math.Float64bits(float64(in.r.IntN(4000) - 2000)) })
	case "f16", "bf16":
		edges := f16Edges
		if typ == "bf16" {
			edges = bf16Edges
		}
		in.v = append(in.v, edges...)
		in.add(opLanes-len(in.v), func() uint64 { return in.r.Uint64() & 0xffff })
	case "f16x2", "bf16x2":
		half := values(strings.TrimSuffix(typ, "x2"), in.seed)
		for i := range half {
			in.v = append(in.v, half[i]|half[(i*11+5)%len(half)]<<16)
		}
	}
}

func (in *inputs) integers(typ string) {
	dup := strings.HasPrefix(typ, "dup")
	bits := 8 * typeBytes(regType(typ))
	if dup {
		in.add(opLanes/2, func() uint64 { return uint64(in.r.IntN(4)) << (bits - 2) })
		in.add(opLanes/2, func() uint64 { return 5 })
		return
	}
	mask := uint64(1)<<bits - 1
	if bits == 64 {
		mask = math.MaxUint64
	}
	top := uint64(1) << (bits - 1)
	in.v = []uint64{0, 1, 2, 3, mask, mask - 1, top, top - 1, top + 1, top - 2, 0x5555555555555555 & mask, 0xaaaaaaaaaaaaaaaa & mask,
		7, 10, 100, 127, 128, 129, 255, 256 & mask, 0xff80 & mask, 0x7fff & mask, 0x8000 & mask, 0xffff & mask, mask - 99, 1 << (bits / 2), 1<<(bits/2) - 1}
	if bits == 64 {
		in.v = append(in.v, 1<<53, 1<<53+1, 1<<54+2, 1<<63+1024, 1<<63+1025, 1<<24+1, 1<<60+1<<35, 1<<63-512)
	}
	if bits == 32 {
		in.v = append(in.v, 1<<24, 1<<24+1, 1<<25+2, 1<<31+128, 0xffffff7f, 0x00800000)
	}
	in.add((opLanes-len(in.v))/2, func() uint64 { return uint64(in.r.IntN(1000)) & mask })
	in.add(opLanes-len(in.v), func() uint64 { return in.r.Uint64() & mask })
}

func runOp(t *testing.T, o *op, src string) []uint64 {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "op.ptx", []byte(src), m), "op")
	writeAll(m, exectest.BufA, o.In)
	m.Map(exectest.BufB, 8*opLanes)
	runKernel(t, k, Launch{Grid: grid(1, 1, 1), Block: grid(opLanes, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB))}, m, 1)
	return readAll[uint64](m, exectest.BufB, opLanes)
}

func readExpected(t testing.TB) map[string][]uint64 {
	f, err := os.Open(filepath.Join("testdata", "ops", "expected.txt"))
	require.NoError(t, err)
	defer f.Close()
	want := map[string][]uint64{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		name, vals, ok := strings.Cut(s.Text(), " => ")
		if !ok {
			continue
		}
		for v := range strings.FieldsSeq(vals) {
			x, err := strconv.ParseUint(v, 16, 64)
			require.NoError(t, err)
			want[name] = append(want[name], x)
		}
	}
	require.NoError(t, s.Err())
	return want
}

// exchanges matches instructions that look at other lanes.
var exchanges = regexp.MustCompile(`\.sync|activemask`)

func TestOps(t *testing.T) {
	ops := readOps(t)
	if *exportOps != "" {
		b, err := json.Marshal(ops)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(*exportOps, b, 0o644))
	}
	want := readExpected(t)
	for i := range ops {
		o := &ops[i]
		t.Run(o.Key, func(t *testing.T) {
			require.Len(t, want[o.Key], opLanes, "no result of a GPU is recorded")
			o.compare(t, want[o.Key], runOp(t, o, o.PTX), 1)
			if !exchanges.MatchString(o.Name) {
				o.compare(t, want[o.Key], runOp(t, o, opKernel(o, true)), 2)
			}
		})
	}
}

// compare checks every step-th lane; lanes between must be untouched.
func (o *op) compare(t *testing.T, want, got []uint64, step int) {
	t.Helper()
	for i := range got {
		if (i+1)%step != 0 {
			require.Zero(t, got[i], "lane %d does not run", i)
			continue
		}
		if !o.equal(want[i], got[i]) {
			t.Errorf("lane %d: inputs %x: got %x, want %x", i, o.In[4*i:4*i+len(o.Types)], got[i], want[i])
		}
	}
}

func (o *op) equal(want, got uint64) bool {
	if want == got {
		return true
	}
	if o.tol == 0 {
		return false
	}
	if strings.HasSuffix(o.Result, "x2") {
		h := strings.TrimSuffix(o.Result, "x2")
		return o.near(decode(h, want&0xffff), decode(h, got&0xffff)) && o.near(decode(h, want>>16), decode(h, got>>16))
	}
	return o.near(decode(o.Result, want), decode(o.Result, got))
}

func (o *op) near(want, got float64) bool {
	if want != want || got != got {
		return want != want && got != got
	}
	if math.IsInf(want, 0) || math.IsInf(got, 0) {
		return want == got
	}
	diff := math.Abs(want - got)
	if o.abs && diff <= o.tol {
		return true
	}
	return diff <= o.tol*math.Abs(want)
}

func decode(typ string, x uint64) float64 {
	switch typ {
	case "f64":
		return math.Float64frombits(x)
	case "f16":
		return float64(scalar.F16to32(uint32(x)))
	case "bf16":
		return float64(scalar.Bf16to32(uint32(x)))
	}
	return float64(math.Float32frombits(uint32(x)))
}

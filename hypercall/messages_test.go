package hypercall

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// payload is what the tests know of a payload type: how to decode it, and a
// sample with every field set. The names are those in Ops.
type payload struct {
	decode func([]byte) (any, error)
	sample encoder
}

type encoder interface{ Append([]byte) []byte }

func decoder[T any](f func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return f(b) }
}

// text is the answer of module-load: the log alone, whatever its bytes are.
type text []byte

func (m text) Append(b []byte) []byte { return append(b, m...) }

func decodeText(b []byte) (text, error) { return text(b), nil }

// nothing is the payload of operations that have none. The backend does not
// look at one that is there all the same, so that a later version may add it.
type nothing struct{}

func (nothing) Append(b []byte) []byte { return b }

var payloads = map[string]payload{
	"":           {func(b []byte) (any, error) { return nothing{}, nil }, nothing{}},
	"text":       {decoder(decodeText), text("a.ptx:1:2: no such instruction")},
	"ID":         {decoder(DecodeID), ID{7}},
	"GemNew":     {decoder(DecodeGemNew), GemNew{Handle: 1, Size: 2 << 20}},
	"GemGrant":   {decoder(DecodeGemGrant), GemGrant{Handle: 2, Resource: 3, Offset: 8192, Size: 4096}},
	"VMBind":     {decoder(DecodeVMBind), VMBind{[]BindOp{{BindMap, BindReadOnly, 1, 1 << 40, 4096, 8192}, {Op: BindUnmap, Addr: 1 << 41, Range: 4096}}}},
	"BindResult": {decoder(DecodeBindResult), BindResult{5}},
	"Exec":       {decoder(DecodeExec), Exec{Channel: 1, Seqno: 2, Waits: []Point{{3, 4}, {5, 6}}, Stream: []byte("12345678")}},
	"ModuleLoad": {decoder(DecodeModuleLoad), ModuleLoad{Module: 1, Bytes: 2, Offset: 3, Total: 5, Name: "a.ptx"}},
	"Symbol":     {decoder(DecodeSymbol), Symbol{Module: 1, Function: 2, Name: "kernel"}},
	"Function":   {decoder(DecodeFunction), Function{1, 2, 3, 4, 5, 6, []FunctionParam{{0, 8}, {8, 4}}}},
	"Global":     {decoder(DecodeGlobal), Global{Addr: 1 << 40, Size: 16}},
	"Status":     {decoder(DecodeStatus), Status{Cause: 1, Text: "illegal address"}},
	"Properties": {decoder(DecodeProperties), Properties{Name: "PVDRM softgpu", Values: []uint64{1, 2, 3}}},
	"MemoryInfo": {decoder(DecodeMemoryInfo), MemoryInfo{Used: 1 << 33}},
	"Counters":   {decoder(DecodeCounters), Counters{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
}

// Every operation has everything; nothing is left over.
func TestOpsTable(t *testing.T) {
	names, used := map[string]bool{}, map[string]bool{}
	for i, o := range Ops {
		require.EqualValues(t, i+1, o.Op, "the table is in the order of the numbers, without gaps")
		require.NotEmpty(t, o.Name)
		require.Equal(t, strings.ToLower(o.Name), o.Name)
		require.False(t, names[o.Name], "two operations are called %s", o.Name)
		names[o.Name] = true
		require.NotEmpty(t, o.Doc, o.Name)
		require.Equal(t, o.Name, o.Op.String())
		info, ok := o.Op.Info()
		require.True(t, ok)
		require.Equal(t, &o, info)
		for _, p := range []string{o.Request, o.Answer} {
			require.Contains(t, payloads, p, "%s: no decoder", o.Name)
			used[p] = true
		}
	}
	for name := range payloads {
		require.True(t, used[name], "no operation uses the payload %q", name)
	}
	for _, unknown := range []Op{0, Op(len(Ops) + 1), 0xffff} {
		_, ok := unknown.Info()
		require.False(t, ok)
		require.Equal(t, fmt.Sprintf("operation %d", unknown), unknown.String())
	}
}

// A sample with every field set survives, and each shorter or longer form is
// refused rather than guessed at.
func TestPayloadsRoundTrip(t *testing.T) {
	for name, p := range payloads {
		t.Run(name, func(t *testing.T) {
			b := p.sample.Append(nil)
			got, err := p.decode(b)
			require.NoError(t, err)
			require.Equal(t, p.sample, got)
			requireAllSet(t, reflect.ValueOf(p.sample))
			require.Equal(t, append([]byte("front"), b...), p.sample.Append([]byte("front")))

			if name == "" || name == "text" {
				return // any bytes are right
			}
			_, err = p.decode(append(b, 0))
			if name != "Exec" { // where a longer one has a longer stream
				require.ErrorIs(t, err, ErrMessage)
			}
			for cut := range b {
				m, err := p.decode(b[:cut])
				if err == nil {
					require.Equal(t, "Exec", name, "cut to %d bytes", cut)
					require.Less(t, len(m.(Exec).Stream), len("12345678"))
					continue
				}
				require.ErrorIs(t, err, ErrMessage)
			}
		})
	}
}

// requireAllSet fails if a field is zero, which would hide a field that is not encoded.
func requireAllSet(t *testing.T, v reflect.Value) {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			require.False(t, v.Field(i).IsZero(), "%s.%s is zero in the sample", v.Type(), v.Type().Field(i).Name)
		}
	}
}

// The largest message of each kind fits, and one more of anything is refused.
func TestBounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		most, over encoder
		decode     func([]byte) (any, error)
	}{
		"binds":      {VMBind{make([]BindOp, MaxBinds)}, VMBind{make([]BindOp, MaxBinds+1)}, decoder(DecodeVMBind)},
		"waits":      {Exec{Waits: make([]Point, MaxWaits), Stream: make([]byte, MaxStream)}, Exec{Waits: make([]Point, MaxWaits+1)}, decoder(DecodeExec)},
		"stream":     {Exec{Stream: make([]byte, MaxStream)}, Exec{Stream: make([]byte, MaxStream+1)}, decoder(DecodeExec)},
		"file name":  {ModuleLoad{Name: long(MaxName)}, ModuleLoad{Name: long(MaxName + 1)}, decoder(DecodeModuleLoad)},
		"symbol":     {Symbol{Name: long(MaxName)}, Symbol{Name: long(MaxName + 1)}, decoder(DecodeSymbol)},
		"params":     {Function{Params: make([]FunctionParam, MaxParams)}, Function{Params: make([]FunctionParam, MaxParams+1)}, decoder(DecodeFunction)},
		"properties": {Properties{Name: long(MaxName), Values: make([]uint64, MaxProperty)}, Properties{Values: make([]uint64, MaxProperty+1)}, decoder(DecodeProperties)},
	} {
		b := c.most.Append(nil)
		require.LessOrEqual(t, HeaderBytes+len(b), MaxMessage, name)
		_, err := c.decode(b)
		require.NoError(t, err, name)
		_, err = c.decode(c.over.Append(nil))
		require.ErrorIs(t, err, ErrMessage, name)
	}

	cut := Status{Text: long(MaxText + 1)}.Append(nil)
	require.LessOrEqual(t, HeaderBytes+len(cut), MaxMessage)
	s, err := DecodeStatus(cut)
	require.NoError(t, err)
	require.Len(t, s.Text, MaxText)
	require.LessOrEqual(t, HeaderBytes+MaxText, MaxMessage, "a log as an answer")
}

// Lengths that promise more than there is cost no memory.
func TestHostileCountsAllocateNothing(t *testing.T) {
	all := []byte{0xff, 0xff, 0xff, 0xff}
	prefix := func(n int) []byte { return append(make([]byte, n), all...) }
	for name, c := range map[string]struct {
		b      []byte
		decode func([]byte) error
	}{
		"VMBind":     {prefix(0), func(b []byte) error { _, err := DecodeVMBind(b); return err }},
		"Exec":       {prefix(12), func(b []byte) error { _, err := DecodeExec(b); return err }},
		"ModuleLoad": {prefix(24), func(b []byte) error { _, err := DecodeModuleLoad(b); return err }},
		"Symbol":     {prefix(8), func(b []byte) error { _, err := DecodeSymbol(b); return err }},
		"Function":   {prefix(24), func(b []byte) error { _, err := DecodeFunction(b); return err }},
		"Status":     {prefix(4), func(b []byte) error { _, err := DecodeStatus(b); return err }},
		"Properties": {prefix(4), func(b []byte) error { _, err := DecodeProperties(b); return err }},
	} {
		require.ErrorIs(t, c.decode(c.b), ErrMessage, name)
		require.Zero(t, testing.AllocsPerRun(10, func() { _ = c.decode(c.b) }), name)
	}
}

package hypercall

import (
	"fmt"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
)

type encoder = encodable

func decoder[T any](f func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return f(b) }
}

// payloads are the requests and answers of all operations, by name.
func payloads() map[string]Payload {
	all := map[string]Payload{}
	for _, o := range Ops {
		for _, p := range []Payload{o.Request, o.Answer} {
			if p.Type != nil {
				all[p.Name()] = p
			}
		}
	}
	return all
}

// sample makes a payload with every field set, each to a value of its own.
func sample(p Payload) encoder {
	if p.Type == nil {
		return Text(nil)
	}
	v, n := reflect.New(p.Type).Elem(), uint64(0)
	fill(v, &n)
	return v.Interface().(encoder)
}

func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(*n)
	case reflect.Uint8:
		v.SetUint(uint64('a' + *n))
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 8, 8))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "_" && name != "Pad" {
				fill(v.Field(i), n)
			}
		}
	default:
		panic(v.Type())
	}
}

// Every row is complete, and in its place.
func TestOps(t *testing.T) {
	names := map[string]bool{}
	for i, o := range Ops {
		require.EqualValues(t, i+1, o.Op, "the table is in the order of the numbers, without gaps")
		require.NotEmpty(t, o.Name)
		require.Equal(t, strings.ToLower(o.Name), o.Name)
		require.False(t, names[o.Name], "two operations are called %s", o.Name)
		names[o.Name] = true
		require.NotEmpty(t, o.Doc, o.Name)
		require.NotNil(t, o.serve, o.Name)
		require.Equal(t, o.Name, o.Op.String())
		info, ok := o.Op.Info()
		require.True(t, ok)
		require.Equal(t, o.Op, info.Op)
		require.Equal(t, i+1, o.Op.Row())
		require.Equal(t, o.Name, RowName(o.Op.Row()))
	}
	for _, unknown := range []Op{0, Op(len(Ops) + 1), 0xffff} {
		_, ok := unknown.Info()
		require.False(t, ok)
		require.Zero(t, unknown.Row())
		require.False(t, names[RowName(unknown.Row())])
		require.Equal(t, fmt.Sprintf("operation %d", unknown), unknown.String())
		_, err := unknown.Serve(nil, nil)
		require.ErrorIs(t, err, syscall.ENOSYS)
	}
}

// Each request is described by its row, in bounds.
func TestOpsDescribe(t *testing.T) {
	require.Equal(t, "gem-new {Handle:3 Size:4096}", OpGemNew.Describe(GemNew{Handle: 3, Size: 4096}.Append(nil)))
	require.Equal(t, "gem-new, 1 bytes that are not its payload", OpGemNew.Describe([]byte{1}))
	require.Equal(t, "operation 999", Op(999).Describe([]byte{1}))
	for _, o := range Ops {
		text := o.Op.Describe(sample(o.Request).Append(nil))
		require.True(t, strings.HasPrefix(text, o.Name), text)
		require.Equal(t, o.Request.Type != nil, strings.Contains(text, "{"), text)
	}
	require.LessOrEqual(t, len(OpExec.Describe(Exec{Stream: make([]byte, drm.MaxExecBytes)}.Append(nil))), maxDescription+len("..."))
}

// Each row calls the method of its name, and each method has a row. Without a server a call of a
// method panics, inside of a wrapper that has its name.
func TestRowsServe(t *testing.T) {
	wrapper := regexp.MustCompile(`hypercall\.Server\.(\w+)\(`)
	method := func(o OpInfo) (name string) {
		defer func() {
			require.NotNil(t, recover(), o.Name)
			if m := wrapper.FindSubmatch(debug.Stack()); m != nil {
				name = string(m[1])
			}
		}()
		_, err := o.Op.Serve(nil, sample(o.Request).Append(nil))
		require.NoError(t, err, "it calls no method")
		return ""
	}
	for _, o := range Ops {
		if o.Op != OpExec { // which calls its method without a wrapper
			require.True(t, strings.EqualFold(method(o), strings.ReplaceAll(o.Name, "-", "")), "%s calls %s", o.Name, method(o))
		}
		if o.Request.Type != nil {
			_, err := o.Op.Serve(nil, []byte{1}) // no request is one byte long
			require.ErrorIs(t, err, ErrMessage, o.Name)
		}
	}
	require.Len(t, Ops, reflect.TypeFor[Server]().NumMethod())
}

// A sample with every field set survives, and each shorter or longer form is
// refused rather than guessed at.
func TestPayloadsRoundTrip(t *testing.T) {
	for name, p := range payloads() {
		t.Run(name, func(t *testing.T) {
			sample := sample(p)
			b := sample.Append(nil)
			got, err := p.Decode(b)
			require.NoError(t, err)
			require.Equal(t, sample, got)
			require.Equal(t, append([]byte("front"), b...), sample.Append([]byte("front")))

			if name == "text" {
				return // any bytes are right
			}
			_, err = p.Decode(append(b, 0))
			if name != "Exec" { // where a longer one has a longer stream
				require.ErrorIs(t, err, ErrMessage)
			}
			for cut := range b {
				m, err := p.Decode(b[:cut])
				if _, is := m.(Owner); is && cut == 0 {
					require.NoError(t, err) // frontends that give none send nothing
					require.Zero(t, m)
					continue
				}
				if err == nil {
					require.Equal(t, "Exec", name, "cut to %d bytes", cut)
					require.Less(t, len(m.(Exec).Stream), len(sample.(Exec).Stream))
					continue
				}
				require.ErrorIs(t, err, ErrMessage)
			}
		})
	}
}

// The largest message of each kind fits, and one more of anything is refused.
func TestBounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		most, over encoder
		decode     func([]byte) (any, error)
	}{
		"binds":      {most: VMBind{Ops: make([]drm.BindOp, MaxBinds)}, over: VMBind{Ops: make([]drm.BindOp, MaxBinds+1)}, decode: decoder(DecodeVMBind)},
		"waits":      {most: Exec{Waits: make([]drm.Point, drm.MaxWaits), Stream: make([]byte, drm.MaxExecBytes)}, over: Exec{Waits: make([]drm.Point, drm.MaxWaits+1)}, decode: decoder(DecodeExec)},
		"stream":     {most: Exec{Stream: make([]byte, drm.MaxExecBytes)}, over: Exec{Stream: make([]byte, drm.MaxExecBytes+1)}, decode: decoder(DecodeExec)},
		"file name":  {most: ModuleLoad{Name: long(drm.MaxName)}, over: ModuleLoad{Name: long(drm.MaxName + 1)}, decode: decoder(DecodeModuleLoad)},
		"symbol":     {most: Symbol{Name: long(drm.MaxName)}, over: Symbol{Name: long(drm.MaxName + 1)}, decode: decoder(DecodeSymbol)},
		"params":     {most: Function{Params: make([]drm.FunctionParam, drm.MaxParams)}, over: Function{Params: make([]drm.FunctionParam, drm.MaxParams+1)}, decode: decoder(DecodeFunction)},
		"properties": {most: Properties{Name: long(drm.MaxName), Values: make([]uint64, MaxProperty)}, over: Properties{Values: make([]uint64, MaxProperty+1)}, decode: decoder(DecodeProperties)},
		"clients":    {most: Usage{Clients: make([]Client, MaxClients)}, over: manyClients{}, decode: decoder(DecodeUsage)},
	} {
		b := c.most.Append(nil)
		require.LessOrEqual(t, HeaderBytes+len(b), MaxMessage, name)
		_, err := c.decode(b)
		require.NoError(t, err, name)
		_, err = c.decode(c.over.Append(nil))
		require.ErrorIs(t, err, ErrMessage, name)
	}

	cut := Status{Text: long(drm.MaxText + 1)}.Append(nil)
	require.LessOrEqual(t, HeaderBytes+len(cut), MaxAnswer)
	s, err := DecodeStatus(cut)
	require.NoError(t, err)
	require.Len(t, s.Text, drm.MaxText)
	require.LessOrEqual(t, HeaderBytes+drm.MaxText, MaxAnswer, "a log as an answer")
	for _, most := range []encoder{
		Function{Params: make([]drm.FunctionParam, drm.MaxParams)}, Usage{Clients: make([]Client, MaxClients)},
		Properties{Name: long(drm.MaxName), Values: make([]uint64, MaxProperty)},
	} {
		require.LessOrEqual(t, HeaderBytes+len(most.Append(nil)), MaxAnswer, "%T", most)
	}
	require.LessOrEqual(t, MaxMessage, MinSlots*SlotBytes, "a largest message in a smallest queue")
}

// manyClients is a Usage with more clients than there may be.
type manyClients struct{}

func (manyClients) Append(b []byte) []byte {
	b = put32(append(b, make([]byte, 40)...), MaxClients+1)
	return append(b, make([]byte, (MaxClients+1)*clientBytes)...)
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
		"Usage":      {prefix(40), func(b []byte) error { _, err := DecodeUsage(b); return err }},
		"Properties": {prefix(4), func(b []byte) error { _, err := DecodeProperties(b); return err }},
	} {
		require.ErrorIs(t, c.decode(c.b), ErrMessage, name)
		require.Zero(t, testing.AllocsPerRun(1000, func() { _ = c.decode(c.b) }), name)
	}
}

// Package docs keeps the tables of the documentation true: what stands between
// the markers of a page is made from the code, and a test compares the two.
package docs

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

//go:generate go test . -run "TestProtocol|TestSecurity" -update

var update = flag.Bool("update", false, "write the generated sections instead of comparing them")

const page = "protocol.md"

// section is what stands between <!-- generated: NAME --> and <!-- end -->.
var section = regexp.MustCompile(`(?s)<!-- generated: ([a-z-]+) -->\n(.*?)<!-- end -->\n`)

func TestProtocol(t *testing.T) { renew(t, page, generate(t)) }

// renew compares the generated sections of a page with what they are to be, or writes them.
func renew(t *testing.T, page string, want map[string]string) {
	t.Helper()
	old, err := os.ReadFile(page)
	require.NoError(t, err)
	seen := map[string]bool{}
	renewed := section.ReplaceAllStringFunc(string(old), func(s string) string {
		name := section.FindStringSubmatch(s)[1]
		require.Contains(t, want, name, "%s has a section that nothing generates", page)
		require.False(t, seen[name], "%s has the section %s twice", page, name)
		seen[name] = true
		return fmt.Sprintf("<!-- generated: %s -->\n%s<!-- end -->\n", name, want[name])
	})
	for name := range want {
		require.True(t, seen[name], "%s has no section %s", page, name)
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(renewed), 0o644))
		return
	}
	require.Equal(t, renewed, string(old), "docs/%s is not what the code says: run `go generate ./docs`", page)
}

// virtgpu are the carrier's ioctls, with what PVDRM uses them for.
var virtgpu = []struct {
	name    string
	request drm.Request
	use     string
}{
	{name: "VIRTGPU_MAP", request: drm.IoctlVirtgpuMap, use: "maps granted memory into the program"},
	{name: "VIRTGPU_EXECBUFFER", request: drm.IoctlVirtgpuExecbuffer, use: "the doorbell"},
	{name: "VIRTGPU_RESOURCE_CREATE", request: drm.IoctlVirtgpuResourceCreate, use: "makes granted memory"},
	{name: "VIRTGPU_RESOURCE_INFO", request: drm.IoctlVirtgpuResourceInfo, use: "the id of imported memory"},
	{name: "VIRTGPU_GET_CAPS", request: drm.IoctlVirtgpuGetCaps, use: "reads the capset"},
}

func generate(t *testing.T) map[string]string {
	wire, api, device := readSource(t, "../hypercall"), readSource(t, "../drm"), readSource(t, "../gpu")
	consts := func(s *source, format string, first string, most int) string {
		rows := [][]string{{"name", "value", "meaning"}}
		for _, c := range s.constants(first, most) {
			rows = append(rows, []string{"`" + c[0] + "`", fmt.Sprintf(format, s.value(c[0])), c[1]})
		}
		return markdown(rows)
	}
	return map[string]string{
		"capset":          markdown(tiled(t, wire.table("Capset"), hypercall.CapsetBytes)),
		"capset-numbers":  capsetNumbers(wire),
		"doorbell":        markdown(tiled(t, wire.table("Doorbell"), hypercall.DoorbellBytes)),
		"doorbell-ops":    consts(wire, "%d", "DoorbellAttach", 0),
		"ring-object":     markdown(wire.tableIn(wire.docs[""], 0)),
		"control-page":    controlPage(wire),
		"states":          consts(wire, "%d", "StateLive", 0),
		"layout":          fields(t, wire, hypercall.Layout{}),
		"channel-record":  markdown(tiled(t, wire.table("ChannelRecord"), hypercall.ChannelRecordBytes)),
		"header":          markdown(tiled(t, wire.table("Header"), hypercall.HeaderBytes)),
		"operations":      operations(),
		"payloads":        messages(t, wire, api),
		"bind-operations": consts(api, "%d", "BindMap", 0),
		"local":           markdown(tiled(t, wire.table("LocalMessage"), hypercall.LocalBytes)),
		"local-ops":       consts(wire, "%d", "LocalHello", 0),
		"ring-limits":     consts(wire, "%d", "pageBytes", 0),
		"message-limits":  consts(wire, "%d", "MaxBinds", 0),
		"argument-limits": consts(api, "%d", "MaxExecBytes", 0),
		"ioctls":          ioctls(),
		"carrier-ioctls":  carrierIoctls(),
		"ioctl-structs":   ioctlStructs(t, api),
		"capabilities":    consts(api, "0x%x", "CapDumbBuffer", 0),
		"params":          consts(api, "%d", "ParamComputeMajor", drm.NumParams),
		"domains":         consts(api, "%d", "DomainVRAM", 0),
		"flags":           flags(api),
		"commands":        markdown(commandTable(t)),
		"lost-causes":     consts(device, "%d", "LostNone", 0),
	}
}

// controlPage lists the words of the control page by their offsets.
func controlPage(wire *source) string {
	rows := [][]string{{"offset", "word", "what"}}
	for _, c := range wire.constants("offRequestTail", 0) {
		rows = append(rows, []string{fmt.Sprintf("0x%03x", wire.value(c[0])), strings.TrimPrefix(c[0], "off"), c[1]})
	}
	return markdown(rows)
}

// flags lists the flags of ioctls that stand in groups of their own.
func flags(api *source) string {
	rows := [][]string{{"name", "value", "ioctl"}}
	for _, f := range [][2]string{
		{"BindReadOnly", "PVDRM_VM_BIND, in an operation"}, {"VMBindAsync", "PVDRM_VM_BIND"}, {"CPUPrepNoWait", "PVDRM_GEM_CPU_PREP"},
		{"SyncobjCreateSignaled", "SYNCOBJ_CREATE"}, {"SyncobjWaitAll", "SYNCOBJ_WAIT"}, {"SyncobjWaitForSubmit", "SYNCOBJ_WAIT"},
	} {
		rows = append(rows, []string{"`" + f[0] + "`", fmt.Sprint(api.value(f[0])), f[1]})
	}
	return markdown(rows)
}

func capsetNumbers(wire *source) string {
	return markdown([][]string{{"what", "value"},
		{"capset id", fmt.Sprint(hypercall.CapsetID)},
		{"capset version", fmt.Sprint(hypercall.VersionMajor)},
		{"magic", fmt.Sprintf("0x%016x, the bytes `1V_PVDRM`", wire.value("capsetMagic"))},
		{"protocol version", fmt.Sprintf("%d.%d", hypercall.VersionMajor, hypercall.VersionMinor)},
	})
}

// tiled checks that the rows of a table (offset, size, field) follow each other
// without gaps and make up a structure of so many bytes.
func tiled(t *testing.T, rows [][]string, bytes int) [][]string {
	at := 0
	for _, r := range rows[1:] {
		var offset, size int
		_, err := fmt.Sscan(r[0]+" "+r[1], &offset, &size)
		require.NoError(t, err, "%v", r)
		require.Equal(t, at, offset, "%v", r)
		at += size
	}
	require.Equal(t, bytes, at, "%v", rows)
	return rows
}

// charges names the quotas that an operation is charged to.
func charges(o hypercall.OpInfo) string {
	if len(o.Charges) == 0 {
		return "–"
	}
	var names []string
	for _, r := range o.Charges {
		names = append(names, r.String())
	}
	return strings.Join(names, ", ")
}

func operations() string {
	link := func(name string) string {
		switch name {
		case "":
			return "–"
		case "text":
			return "text"
		}
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	rows := [][]string{{"number", "name", "answered", "request", "answer", "charged to", "purpose"}}
	for _, o := range hypercall.Ops {
		answered := "always"
		if o.Async {
			answered = "when it fails"
		}
		rows = append(rows, []string{fmt.Sprint(uint16(o.Op)), o.Name, answered, link(o.Request.Name()), link(o.Answer.Name()), charges(o), o.Doc})
	}
	return markdown(rows)
}

// messages describes each payload type, in the order in which operations use them.
func messages(t *testing.T, wire, api *source) string {
	var b strings.Builder
	done := map[string]bool{"": true, "text": true}
	for _, o := range hypercall.Ops {
		for _, p := range []hypercall.Payload{o.Request, o.Answer} {
			name := p.Name()
			if done[name] {
				continue
			}
			done[name] = true
			zero := reflect.New(p.Type).Elem().Interface()
			fmt.Fprintf(&b, "#### %s\n\n%s\n\n%s\n", name, wire.prose(name), payloadTable(t, wire, api, zero))
		}
	}
	return b.String()
}

// payloadTable lists the fields of a payload as they are encoded: numbers one
// after the other, a text with its length in front, a list with its count in
// front, bytes to the end of the message. It checks the offsets on an encoding.
func payloadTable(t *testing.T, wire, api *source, p any) string {
	typ := reflect.TypeOf(p)
	var comments map[string]string
	if _, isFunction := p.(hypercall.Function); isFunction {
		comments = api.fieldComments("FunctionAttributes")
	} else {
		comments = wire.fieldComments(typ.Name())
	}
	rows := [][]string{{"offset", "type", "field", "meaning"}}
	sample := reflect.New(typ).Elem()
	at, fixed := 0, true
	type check struct{ field, offset int }
	var checks []check
	place := func() string {
		if fixed {
			return fmt.Sprint(at)
		}
		return "then"
	}
	add := func(kind, name, meaning string) {
		rows = append(rows, []string{place(), kind, name, meaning})
	}
	var nested []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		switch {
		case f.Type.Kind() == reflect.Uint32 || f.Type.Kind() == reflect.Uint64:
			add(fmt.Sprintf("u%d", f.Type.Bits()), f.Name, comments[f.Name])
			require.True(t, fixed, "%s.%s: a number behind something of variable length cannot be checked", typ, f.Name)
			sample.Field(i).SetUint(0x1122334455667788 >> (64 - f.Type.Bits()) * uint64(i+1))
			checks = append(checks, check{i, at})
			at += f.Type.Bits() / 8
		case f.Type.Kind() == reflect.Array && f.Type.Elem().Kind() == reflect.Uint8:
			add(fmt.Sprintf("%d bytes", f.Type.Len()), f.Name, comments[f.Name])
			at += f.Type.Len()
		case f.Type.Kind() == reflect.String:
			add("u32", "length of "+f.Name, "")
			at += 4
			fixed = false
			add("bytes", f.Name, comments[f.Name])
		case f.Type == reflect.TypeFor[[]byte]():
			fixed = false
			add("bytes", f.Name, comments[f.Name]+"; to the end of the message")
		case f.Type == reflect.TypeFor[[]uint64]():
			add("u32", "number of "+f.Name, "")
			fixed = false
			add("u64 each", f.Name, comments[f.Name])
		case f.Type.Kind() == reflect.Slice:
			add("u32", "number of "+f.Name, "")
			at += 4
			fixed = false
			e := f.Type.Elem()
			add(fmt.Sprintf("%s each", e.Name()), f.Name, comments[f.Name])
			from := api
			if e.PkgPath() == typ.PkgPath() {
				from = wire
			}
			nested = append(nested, fmt.Sprintf("Each %s:\n\n%s", e.Name(), fields(t, from, reflect.New(e).Elem().Interface())))
		default:
			require.Failf(t, "unknown kind of field", "%s.%s", typ, f.Name)
		}
	}
	encoded := sample.Interface().(interface{ Append([]byte) []byte }).Append(nil)
	for _, c := range checks {
		got := uint64(binary.LittleEndian.Uint32(encoded[c.offset:]))
		if typ.Field(c.field).Type.Bits() == 64 {
			got = binary.LittleEndian.Uint64(encoded[c.offset:])
		}
		require.Equal(t, sample.Field(c.field).Uint(), got, "%s.%s is not at offset %d", typ, typ.Field(c.field).Name, c.offset)
	}
	return markdown(rows) + prefixed("\n", strings.Join(nested, "\n"))
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// fields lists the fields of a struct of numbers that are encoded packed, without padding.
func fields(t *testing.T, from *source, v any) string {
	typ := reflect.TypeOf(v)
	comments := from.fieldComments(typ.Name())
	rows := [][]string{{"offset", "type", "field", "meaning"}}
	at := 0
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Name == "_" || f.Name == "Pad" {
			continue
		}
		rows = append(rows, []string{fmt.Sprint(at), number(t, f.Type), f.Name, comments[f.Name]})
		at += int(f.Type.Size())
	}
	return markdown(rows)
}

func number(t *testing.T, typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("u%d", typ.Bits())
	case reflect.Int32, reflect.Int64:
		return fmt.Sprintf("s%d", typ.Bits())
	}
	require.Failf(t, "not a number", "%s", typ)
	return ""
}

func direction(r drm.Request) string {
	switch {
	case r.Reads() && r.Writes():
		return "in, out"
	case r.Writes():
		return "out"
	}
	return "in"
}

func ioctls() string {
	rows := [][]string{{"request", "name", "argument", "what it does"}}
	for _, e := range drm.Table {
		rows = append(rows, []string{fmt.Sprintf("0x%08x", uint32(e.Request)), e.Name,
			fmt.Sprintf("%d bytes, %s", e.Request.Size(), direction(e.Request)), e.Doc})
	}
	return markdown(rows)
}

func carrierIoctls() string {
	rows := [][]string{{"request", "name", "argument", "used for"}}
	for _, v := range virtgpu {
		rows = append(rows, []string{fmt.Sprintf("0x%08x", uint32(v.request)), v.name, fmt.Sprintf("%d bytes", v.request.Size()), v.use})
	}
	return markdown(rows)
}

// ioctlStructs describes the arguments of PVDRM's own ioctls and of those of
// the DRM core, each struct once.
func ioctlStructs(t *testing.T, api *source) string {
	var b strings.Builder
	done := map[reflect.Type]bool{}
	describe := func(typ reflect.Type) {
		if done[typ] {
			return
		}
		done[typ] = true
		comments := api.fieldComments(typ.Name())
		rows := [][]string{{"offset", "type", "field", "meaning"}}
		for i := 1; i < typ.NumField(); i++ { // the first says only how it is laid out
			f := typ.Field(i)
			name, meaning := f.Name, comments[f.Name]
			if name == "_" || name == "Pad" {
				name, meaning = "padding", "0"
			}
			rows = append(rows, []string{fmt.Sprint(f.Offset), number(t, f.Type), name, meaning})
		}
		fmt.Fprintf(&b, "%s (%d bytes)\n\n%s\n", api.prose(typ.Name()), typ.Size(), markdown(rows))
	}
	for _, e := range drm.Table {
		fmt.Fprintf(&b, "#### %s\n\n", e.Name)
		if done[e.Argument] {
			fmt.Fprintf(&b, "The same struct, %s.\n\n", e.Argument.Name())
			continue
		}
		describe(e.Argument)
		if e.Element != nil {
			describe(e.Element)
		}
	}
	return b.String()
}

// commandTable is the table in the comment at the head of command.go.
func commandTable(t *testing.T) [][]string {
	api := readSource(t, "../drm")
	g := api.groups["cmdCopy"]
	require.NotNil(t, g)
	return api.tableIn(g.Doc.Text(), 0)
}

// TestPackagesAgree compares numbers that two packages have.
func TestPackagesAgree(t *testing.T) {
	require.LessOrEqual(t, drm.NumParams, hypercall.MaxProperty)
	require.EqualValues(t, 0, gpu.LostNone, "a STATUS of 0 means that the context lives")
}

// What the page says of an opcode's command is what the encoder makes.
func TestCommandTable(t *testing.T) {
	commands := map[string]interface{ Append([]byte) []byte }{
		"COPY": drm.CopyCmd{}, "FILL": drm.FillCmd{Size: 4}, "LAUNCH": drm.LaunchCmd{}, "TIMESTAMP": drm.TimestampCmd{}, "TASK": drm.TaskCmd{},
		"COOPERATIVE": drm.LaunchCmd{Cooperative: true}, "WORD": drm.WordCmd{Size: 4},
		"CLUSTER": drm.LaunchCmd{Cluster: [3]uint32{1, 1, 1}}, "YIELDING": drm.LaunchCmd{Signal: 1}, "CALL": drm.CallCmd{},
	}
	rows := commandTable(t)[1:]
	require.Len(t, rows, len(commands))
	for _, r := range rows {
		c, ok := commands[r[1]]
		require.True(t, ok, r[1])
		require.Equal(t, r[0], fmt.Sprint(binary.LittleEndian.Uint16(c.Append(nil))), r[1])
	}
}

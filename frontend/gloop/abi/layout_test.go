package abi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// named are fields whose names in the header are not the Go name with a small first letter.
var named = map[string]string{"Ver": "version", "IP": "ip"}

// The structures of this package are those of the header: a compiler compares offsets and sizes.
func TestLayoutIsTheHeaders(t *testing.T) {
	compiler, err := exec.LookPath("g++")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("needs g++ (Debian's package of that name)")
	}
	var b strings.Builder
	fmt.Fprintln(&b, "#include \"gloop_abi.h\"\nusing namespace gloop::abi;")
	for _, v := range []any{Launch{}, Queue{}, Slot{}, Control{}, Context{}, Report{}, Request{}, Block{}} {
		typ := reflect.TypeOf(v)
		fmt.Fprintf(&b, "static_assert(sizeof(%s) == %d, \"size of %s\");\n", typ.Name(), typ.Size(), typ.Name())
		for f := range typ.Fields() {
			if f.Name == "_" {
				continue
			}
			name := named[f.Name]
			if name == "" {
				name = string(unicode.ToLower(rune(f.Name[0]))) + f.Name[1:]
			}
			fmt.Fprintf(&b, "static_assert(__builtin_offsetof(%s, %s) == %d && sizeof(%s::%s) == %d, \"%s.%s\");\n",
				typ.Name(), name, f.Offset, typ.Name(), name, f.Type.Size(), typ.Name(), name)
		}
	}
	for op := OpOpen; op < opEnd; op++ {
		fmt.Fprintf(&b, "static_assert(%s == %d, \"operation\");\n", constants[op], op)
	}
	fmt.Fprintf(&b, "static_assert(kVersion == %d && kSlots == %d && kCallbackBytes == %d && kAll == %d, \"constants\");\n", Version, Slots, CallbackBytes, FlagAll)
	fmt.Fprintf(&b, "static_assert(kDone == %d && kSuspended == %d && kWaiting == %d && kFailed == %d, \"states\");\n", StateDone, StateSuspended, StateWaiting, StateFailed)
	fmt.Fprintf(&b, "static_assert(kFaultSlots == %d && kFaultCoalesced == %d && kFaultVersion == %d, \"faults\");\n", FaultSlots, FaultCoalesced, FaultVersion)

	compile := func(text string) ([]byte, error) {
		file := filepath.Join(t.TempDir(), "layout.cc")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return exec.Command(compiler, "-std=c++17", "-fsyntax-only", "-I../device", file).CombinedOutput()
	}
	out, err := compile(b.String())
	require.NoError(t, err, "%s", out)
	out, err = compile(strings.Replace(b.String(), "sizeof(Queue) == 64", "sizeof(Queue) == 65", 1))
	require.Error(t, err)
	require.Contains(t, string(out), "size of Queue")
}

var constants = map[Op]string{
	OpOpen: "kOpen", OpClose: "kClose", OpStat: "kStat", OpTruncate: "kTruncate", OpRead: "kRead", OpWrite: "kWrite",
	OpConnect: "kConnect", OpBind: "kBind", OpUnbind: "kUnbind", OpAccept: "kAccept", OpDisconnect: "kDisconnect",
	OpReceive: "kReceive", OpSend: "kSend",
}

// The sizes that the host allocates by are those of the structures.
func TestSizes(t *testing.T) {
	require.EqualValues(t, LaunchBytes, reflect.TypeFor[Launch]().Size())
	require.EqualValues(t, QueueBytes, reflect.TypeFor[Queue]().Size())
	require.EqualValues(t, ContextBytes, reflect.TypeFor[Context]().Size())
	require.EqualValues(t, BlockBytes, reflect.TypeFor[Block]().Size())
}

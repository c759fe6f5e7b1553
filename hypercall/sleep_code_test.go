package hypercall

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestModelIsTheCode compares the models with ring.go: the atomic operations of
// each function that a model speaks of are the model's steps, in this order.
// Whoever changes one has to change the other.
func TestModelIsTheCode(t *testing.T) {
	code := atomicOperations(t, "ring.go")
	require.Equal(t, []string{"tail.Load"}, code["Ready"], "the models take Ready for one step")

	compare := func(program string, steps []string) {
		model := map[string][]string{}
		for _, s := range steps {
			if s != "" {
				function, operation, ok := strings.Cut(s, ": ")
				require.True(t, ok, s)
				model[function] = append(model[function], operation)
			}
		}
		require.NotEmpty(t, model, program)
		for function, operations := range model {
			if function == "Done" { // the frontend's program calls it twice
				operations = operations[:1]
			}
			require.Equal(t, code[function], operations, "%s: %s", program, function)
		}
	}
	compare("producer", codeOf(producerSteps(1)))
	compare("consumer", codeOf(consumerSteps()))
	compare("session", codeOf(sessionSteps(1, nil)))
	compare("device", codeOf(deviceSteps(1, nil)))
	compare("control", codeOf(controlSteps()))
	compare("frontend", codeOf(frontendSteps(1, 1)))
}

func codeOf[S comparable](p []step[S]) (code []string) {
	for _, s := range p {
		code = append(code, s.code)
	}
	return code
}

// atomicOperations lists the operations on shared words by function, in the
// order of the source, as "word.Operation". Calls of Ready are listed as such.
func atomicOperations(t *testing.T, file string) map[string][]string {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	operations := map[string][]string{}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch method.Sel.Name {
			case "Ready":
				operations[f.Name.Name] = append(operations[f.Name.Name], "Ready")
			case "Load", "Store", "Swap", "CompareAndSwap", "Add", "And", "Or":
				operations[f.Name.Name] = append(operations[f.Name.Name], wordName(method.X)+"."+method.Sel.Name)
			}
			return true
		})
	}
	return operations
}

// wordName names the word that an atomic operation works on: the field, or the
// offset that was given to word32 or word64.
func wordName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && len(e.Args) == 2 && strings.HasPrefix(f.Name, "word") {
			return wordName(e.Args[1])
		}
		return wordName(e.Fun)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// TestSlotsAreOnlyCopied checks what no single-threaded test can: that the
// consumer reads a slot by copying it, once, and in no other way, so that nothing is
// validated in memory that the other side can change.
func TestSlotsAreOnlyCopied(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "ring.go", nil, 0)
	require.NoError(t, err)
	copies, uses := 0, 0
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "Get" {
			continue
		}
		count := func(n ast.Node) (found int) {
			ast.Inspect(n, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "slots" {
					found++
				}
				return true
			})
			return found
		}
		uses = count(f.Body)
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				switch name, _ := call.Fun.(*ast.Ident); {
				case name == nil:
				case name.Name == "copy":
					copies += count(call.Args[1])
				case name.Name == "load": // of one word
					copies += count(call.Args[0])
				}
			}
			return true
		})
	}
	require.Equal(t, 5, copies, "the header, a short payload, another one, and what wrapped around of it")
	require.Equal(t, copies, uses, "a slot is read without being copied")
}

// TestRealMethodsInEveryOrder drives real Producers and Consumers, a method at a
// time, through every schedule of two threads.
func TestRealMethodsInEveryOrder(t *testing.T) {
	const messages = 7
	mem := make([]byte, smallLayout.Bytes())
	schedules := 0
	for s := (&schedule{}); s.more(); schedules++ {
		clear(mem[:pageBytes])
		ring, err := New(mem, smallLayout)
		require.NoError(t, err)
		var (
			p, c   = ring.Requests(), ring.RequestsIn()
			buf    [MaxMessage]byte
			put    uint32
			got    uint32
			bells  int
			rung   int
			sleeps bool
			drain  = true
		)
		for {
			canPut := put < messages
			canTake := !sleeps || bells > 0
			if !canPut && !canTake {
				break
			}
			if canPut && (!canTake || s.choose()) {
				put++
				ok, err := p.Put(Header{Op: OpNop, ID: put}, nil)
				require.True(t, ok)
				require.NoError(t, err)
				if p.Publish() {
					bells++
					rung++
				}
				continue
			}
			switch {
			case sleeps: // the doorbell was rung
				bells, sleeps, drain = 0, false, true
				c.Awake()
			case drain:
				h, _, ok, err := c.Get(buf[:])
				require.NoError(t, err)
				if drain = ok; ok {
					got++
					require.Equal(t, got, h.ID)
				}
			default:
				sleeps = c.Sleep()
				drain = !sleeps
			}
		}
		require.EqualValues(t, messages, got, "asleep for ever: schedule %v", s.choices)
		require.LessOrEqual(t, rung, messages)
	}
	require.Greater(t, schedules, 100)
	t.Logf("%d schedules", schedules)
}

// schedule enumerates the outcomes of a program that calls choose.
type schedule struct {
	choices []bool
	at      int
	started bool
}

// more starts the next outcome; it reports false after the last.
func (s *schedule) more() bool {
	if s.at = 0; !s.started {
		s.started = true
		return true
	}
	for len(s.choices) > 0 && s.choices[len(s.choices)-1] {
		s.choices = s.choices[:len(s.choices)-1]
	}
	if len(s.choices) == 0 {
		return false
	}
	s.choices[len(s.choices)-1] = true
	return true
}

func (s *schedule) choose() bool {
	if s.at == len(s.choices) {
		s.choices = append(s.choices, false)
	}
	s.at++
	return s.choices[s.at-1]
}

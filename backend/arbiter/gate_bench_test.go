package arbiter

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkStanding is what a command pays while nobody else wants the engine.
func BenchmarkStanding(b *testing.B) {
	g, err := Join(GateConfig{})
	require.NoError(b, err)
	for b.Loop() {
		if g.Enter(Compute, false) != nil {
			b.Fatal("not granted")
		}
		g.Leave(Compute, time.Microsecond, 1, false)
	}
}

// BenchmarkHandOver is what a command pays for the token when another backend has
// it and is idle: a request and a grant over sockets.
func BenchmarkHandOver(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s")
	s, err := NewServer(Config{GPUs: []GPU{{Policy: "fifo"}}})
	require.NoError(b, err)
	l, err := Listen(path, 0o600)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, l) }()
	var gates [2]*Gate
	for i := range gates {
		gates[i], err = Join(GateConfig{Connect: Taking{Socket: path, Hello: Hello{Name: string(rune('a' + i))}}.Connect})
		require.NoError(b, err)
	}
	for i := 0; b.Loop(); i++ {
		run(gates[i%2], Compute, 0)
	}
	for _, g := range gates {
		g.Close()
	}
	cancel()
	require.NoError(b, <-served)
}

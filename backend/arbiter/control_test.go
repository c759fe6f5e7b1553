package arbiter

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// controlled starts an arbiter with a guest "a" and returns its control socket.
func controlled(t *testing.T) string {
	t.Helper()
	s, err := NewServer(Config{})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "arbiter")
	l, err := Listen(path, 0o600)
	require.NoError(t, err)
	control, err := ListenControl(path + ControlSuffix)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ends := make(chan error, 2)
	go func() { ends <- s.Serve(ctx, l) }()
	go func() { ends <- s.ServeControl(ctx, control) }()
	g, err := Join(GateConfig{Connect: Taking{Socket: path, Hello: Hello{Name: "a", Share: sched.Share{Weight: 2, Cap: 0.5}}}.Connect})
	require.NoError(t, err)
	t.Cleanup(func() {
		g.Close()
		cancel()
		require.NoError(t, <-ends)
		require.NoError(t, <-ends)
	})
	return path + ControlSuffix
}

func TestControl(t *testing.T) {
	path := controlled(t)
	ctx := context.Background()
	answer, err := Ask(ctx, path, Command{})
	require.NoError(t, err)
	require.Equal(t, DefaultPolicy, answer.GPUs[0].Policy)
	require.Equal(t, "a", answer.GPUs[0].Guests[0].Name)

	answer, err = Ask(ctx, path, Command{Policy: "fifo"})
	require.NoError(t, err)
	require.Equal(t, "fifo", answer.GPUs[0].Policy)

	weight := uint32(30)
	answer, err = Ask(ctx, path, Command{Guest: "a", Share: &ShareChange{Weight: &weight}})
	require.NoError(t, err)
	require.Equal(t, sched.Share{Weight: 30, Cap: 0.5}, answer.GPUs[0].Guests[0].Share, "the cap stays")

	class, priority, sla := sched.Latency, uint32(5), 100*ms
	answer, err = Ask(ctx, path, Command{Guest: "a", Share: &ShareChange{Class: &class, Priority: &priority, SLA: &sla}})
	require.NoError(t, err)
	want := sched.Share{Weight: 30, Cap: 0.5, Class: class, Priority: priority, SLA: sla}
	require.Equal(t, want, answer.GPUs[0].Guests[0].Share)
	class = sched.Batch
	answer, err = Ask(ctx, path, Command{Guest: "a", Share: &ShareChange{Class: &class}})
	require.NoError(t, err)
	want.Class, want.SLA = class, 0
	require.Equal(t, want, answer.GPUs[0].Guests[0].Share, "an SLA goes with its class")
}

func TestControlRefuses(t *testing.T) {
	path := controlled(t)
	second := 1
	heavy, most, high, sla := uint32(sched.MaxWeight+1), 2.0, uint32(sched.MaxPriority+1), time.Second
	for name, c := range map[string]struct {
		command Command
		why     string
	}{
		"policy":   {Command{Policy: "none"}, "no such scheduling policy"},
		"GPU":      {Command{GPU: &second, Policy: "fifo"}, "counted from 0"},
		"guest":    {Command{Guest: "b", Share: &ShareChange{}}, "not connected"},
		"weight":   {Command{Guest: "a", Share: &ShareChange{Weight: &heavy}}, "weight 10001"},
		"cap":      {Command{Guest: "a", Share: &ShareChange{Cap: &most}}, "cap 2"},
		"priority": {Command{Guest: "a", Share: &ShareChange{Priority: &high}}, "priority 101"},
		"SLA":      {Command{Guest: "a", Share: &ShareChange{SLA: &sla}}, "class batch has none"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Ask(context.Background(), path, c.command)
			require.ErrorContains(t, err, c.why)
			answer, err := Ask(context.Background(), path, Command{})
			require.NoError(t, err)
			require.Equal(t, DefaultPolicy, answer.GPUs[0].Policy)
			require.Equal(t, sched.Share{Weight: 2, Cap: 0.5}, answer.GPUs[0].Guests[0].Share)
		})
	}
}

// A client that sends nonsense, or too much, gets an answer and no service.
func TestControlNonsense(t *testing.T) {
	path := controlled(t)
	for name, text := range map[string]string{"not JSON": "policy", "wrong type": `{"gpu":"x"}`,
		"too long": `{"policy":"` + string(make([]byte, maxCommand)) + `"}`} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("unix", path)
			require.NoError(t, err)
			_, err = io.WriteString(conn, text)
			require.NoError(t, err)
			require.NoError(t, conn.(*net.UnixConn).CloseWrite())
			answer, err := io.ReadAll(conn)
			if err == nil { // it may be cut off with what was not read
				require.Contains(t, string(answer), "reading the command")
			}
			require.NoError(t, conn.Close())
			_, err = Ask(context.Background(), path, Command{})
			require.NoError(t, err)
		})
	}
}

package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/suite"
)

// start serves handle at the other end of two pipes.
func start(t *testing.T, handle func(Request) (Answer, error)) *Client {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := Serve(inR, outW, handle)
		served <- errors.Join(err, outW.Close())
	}()
	c := NewClient(inW, outR)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.NoError(t, <-served)
	})
	return c
}

func TestAnswers(t *testing.T) {
	c := start(t, func(r Request) (Answer, error) {
		if r.Bench == "" {
			h := Here()
			return Answer{Hello: &h}, nil
		}
		if r.Bench == "broken" {
			return Answer{}, errors.New("it is\nbroken")
		}
		return Answer{Result: &suite.Result{Bench: r.Bench, Verified: r.Floor, Doorbells: 7}, DeviceSeconds: 0.5}, nil
	})
	for range 2 {
		a, err := c.Do(t.Context(), Request{Bench: "madd", Floor: true})
		require.NoError(t, err)
		require.Equal(t, Answer{Result: &suite.Result{Bench: "madd", Verified: true, Doorbells: 7}, DeviceSeconds: 0.5}, a)
		_, err = c.Do(t.Context(), Request{Bench: "broken"})
		require.EqualError(t, err, "it is\nbroken")
	}
	a, err := c.Do(t.Context(), Request{Hello: true})
	require.NoError(t, err)
	require.Contains(t, a.Hello.System, "Linux ")
	require.Positive(t, a.Hello.Processors)
}

func TestAgentThatIsGone(t *testing.T) {
	_, w := io.Pipe()
	_, err := NewClient(w, strings.NewReader("")).Do(canceled(t), Request{})
	require.ErrorIs(t, err, context.Canceled, "nobody reads the request")

	to := nopCloser{io.Discard}
	_, err = NewClient(to, strings.NewReader("")).Do(t.Context(), Request{})
	require.ErrorIs(t, err, io.EOF)
	_, err = NewClient(to, strings.NewReader("panic: something\n")).Do(t.Context(), Request{})
	require.ErrorContains(t, err, `"panic: something\n"`)
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestGarbage(t *testing.T) {
	var out bytes.Buffer
	err := Serve(strings.NewReader("{\"bench\":\"madd\"}\nfnord\n"), &out, func(Request) (Answer, error) { return Answer{}, nil })
	require.ErrorContains(t, err, "reading a request")
	require.Equal(t, "{}\n", out.String())
}

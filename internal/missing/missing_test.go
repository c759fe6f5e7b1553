package missing

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listen makes a Collector, and sets the environment for FromEnv.
func listen(t *testing.T, address string) *Collector {
	t.Helper()
	c, err := Listen(address)
	require.NoError(t, err)
	t.Setenv(Env, c.Address())
	return c
}

func TestReport(t *testing.T) {
	for name, address := range map[string]string{"path": filepath.Join(t.TempDir(), "s"), "abstract": ""} {
		t.Run(name, func(t *testing.T) {
			c := listen(t, address)
			s := FromEnv()
			for range 100 {
				s.Send("cuA: not there\nsecond line")
			}
			FromEnv().Send("cuA: not there second line") // as another process of the program
			s.Send("cuB: \x1b[31m")
			s.Send(" \n")
			require.Equal(t, Report{Lines: []string{"cuA: not there second line", "cuB: \x1b[31m"}}, c.Close())
			s.Send("cuC") // is lost without a word
		})
	}
}

func TestReportKeepsTheFirstAndTheLast(t *testing.T) {
	var r Report
	for i := range 10 {
		r.Add(fmt.Sprint("text ", i))
		r.Add("text 0")
	}
	require.Equal(t, Report{Lines: []string{"text 0", "text 1", "text 2", "text 3", "text 9"}, More: 5}, r)
}

// A program that sends without end fills nothing, and holds nothing up.
func TestFlood(t *testing.T) {
	address := filepath.Join(t.TempDir(), "s")
	c := listen(t, address)
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	stop := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := fmt.Fprint(conn, i, strings.Repeat("x", 2*MaxText)); err != nil {
				return // the Collector has ended
			}
			if i == maxReceived/2 {
				stop <- struct{}{}
			}
		}
	}()
	<-stop
	r := c.Close()
	close(stop)
	<-sent
	require.Len(t, r.Lines, MaxKept)
	require.Positive(t, r.More)
	require.LessOrEqual(t, r.More, maxReceived)
	for _, l := range r.Lines {
		require.Len(t, l, MaxText)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Setenv(Env, filepath.Join(t.TempDir(), "none"))
	FromEnv().Send("text")
	t.Setenv(Env, strings.Repeat("long/", 100))
	FromEnv().Send("text")
	t.Setenv(Env, "")
	require.Nil(t, FromEnv())
	FromEnv().Send("text")
	require.Equal(t, Report{}, (*Collector)(nil).Close())
}

func TestSenderIsBounded(t *testing.T) {
	c := listen(t, filepath.Join(t.TempDir(), "s"))
	s := FromEnv()
	for i := range 2 * maxSent {
		s.Send(fmt.Sprint(i))
	}
	require.Len(t, s.sent, maxSent)
	c.Close()
}

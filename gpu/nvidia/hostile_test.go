package nvidia

import (
	"bytes"
	"encoding/gob"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// hostileWorker is a process whose worker does what the test says: it sends messages, or bytes,
// whatever it is asked.
func hostileWorker(t testing.TB) (*process, *os.File) {
	ours, theirs, err := unixsock.Pair(unix.SOCK_STREAM)
	require.NoError(t, err)
	p := &process{link: newLink(ours, 0)}
	t.Cleanup(func() {
		p.link.close()
		_ = theirs.Close() // some tests did so
	})
	return p, theirs
}

// answers are what a worker may send.
func answers(t testing.TB, messages ...any) []byte {
	var b bytes.Buffer
	enc := gob.NewEncoder(&b)
	for _, m := range messages {
		require.NoError(t, enc.Encode(m))
	}
	return b.Bytes()
}

func TestAnswersAreBounded(t *testing.T) {
	big := make([]byte, partBytes)
	for _, test := range []struct {
		name    string
		request request
		answer  []byte
		want    error
	}{
		{name: "image", request: request{Op: opCompile, Most: 3 * partBytes},
			answer: answers(t, &part{Image: big, More: true}, &part{Image: big, More: true}, &part{Image: big})},
		{name: "image of more than was asked for", request: request{Op: opCompile, Most: 3*partBytes - 1},
			answer: answers(t, &part{Image: big, More: true}, &part{Image: big, More: true}, &part{Image: big}), want: errTooMuch},
		{name: "image without a question", request: request{Op: opAllocate},
			answer: answers(t, &part{Image: []byte{1}}), want: errTooMuch},
		{name: "long message", request: request{Op: opAllocate},
			answer: answers(t, &reply{Functions: make([]functionInfo, 5*maxMessage)}), want: errTooMuch},
		{name: "long message about a module", request: request{Op: opLoad, Names: make([]string, 100)},
			answer: answers(t, &reply{Functions: make([]functionInfo, 100)})},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, theirs := hostileWorker(t)
			go func() { _, _ = theirs.Write(test.answer) }() // fails when the test has seen enough
			err := p.do(&test.request, nil, &reply{})
			require.ErrorIs(t, err, test.want)
		})
	}
}

func TestAnswersBringNoDescriptors(t *testing.T) {
	p, theirs := hostileWorker(t)
	require.NoError(t, unix.Sendmsg(int(theirs.Fd()), answers(t, &reply{}), unix.UnixRights(0, 0, 0), nil, 0))
	require.ErrorIs(t, p.do(&request{Op: opAllocate}, nil, &reply{}), errTooMuch)
	require.Empty(t, p.link.fds)
}

func TestErrorsOfWorkersAreBounded(t *testing.T) {
	const long = 20 << 10
	e := (&driverError{Call: string(make([]byte, long)), Name: string(make([]byte, long)), Text: string(make([]byte, long))}).bounded()
	require.Less(t, len(e.Error()), 2*long)
}

// Codecs begin again together, after some requests and after large ones.
func TestCodecsAreRenewed(t *testing.T) {
	p, theirs := hostileWorker(t)
	done := make(chan error, 1)
	go func() {
		worker := newLink(int(theirs.Fd()), 0)
		for {
			var q request
			err := q.receive(worker)
			if err == nil {
				err = (&reply{Vars: []varInfo{{Size: uint64(len(q.Image))}}}).send(worker)
			}
			if err != nil {
				done <- err
				return
			}
			worker.answered(&q)
		}
	}()
	image, requests := make([]byte, 3*partBytes+1), 1000
	if testing.Short() {
		requests = 300
	}
	for i := range requests {
		q := &request{Op: opLoad, Image: image}
		if i%10 == 0 {
			q.Names = make([]string, 200)
		}
		var r reply
		require.NoError(t, p.do(q, nil, &r))
		require.EqualValues(t, len(image), r.Vars[0].Size)
	}
	p.link.shutdown()
	require.Error(t, <-done)
}

// FuzzAnswer has a worker answer with any bytes.
func FuzzAnswer(f *testing.F) {
	f.Add(answers(f, &reply{}))
	f.Add(answers(f, &part{Image: []byte("abc"), More: true}, &reply{Image: []byte("def"), Functions: []functionInfo{{Handle: 1}}, Vars: []varInfo{{Addr: 1, Size: 2}}}))
	f.Add(answers(f, &reply{Err: &driverError{Call: "cuLinkComplete", Code: resultInvalidPTX, Text: "line 1"}}))
	f.Fuzz(func(t *testing.T, answer []byte) {
		p, theirs := hostileWorker(t)
		if len(answer) > 100<<10 {
			return // more than the socket takes at once
		}
		_, err := theirs.Write(answer)
		require.NoError(t, err)
		require.NoError(t, theirs.Close())
		q := &request{Op: opCompile, Most: partBytes, Names: []string{"f"}, Vars: []string{"v"}}
		var r reply
		if p.do(q, nil, &r) == nil {
			require.LessOrEqual(t, len(r.Image), q.Most)
		}
	})
}

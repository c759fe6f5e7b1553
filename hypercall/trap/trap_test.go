package trap

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/hostmem"
)

// sides are the guest's and the Aggregator's side of a mailbox.
func sides(t testing.TB) (guest, host *Mailbox, mem []byte) {
	r, err := hostmem.New(MailboxBytes)
	require.NoError(t, err)
	t.Cleanup(r.Release)
	guest, err = NewMailbox(r.Bytes())
	require.NoError(t, err)
	host, err = NewMailbox(r.Bytes())
	require.NoError(t, err)
	return guest, host, r.Bytes()
}

func TestMailbox(t *testing.T) {
	guest, host, mem := sides(t)
	_, ok, err := host.Take()
	require.NoError(t, err)
	require.False(t, ok)
	ops := bytes.Repeat([]byte{7}, MaxPayload)
	for _, r := range []Request{
		{Kind: Read, BAR: 3, Off: 0x1234},
		{Kind: Write, BAR: 1, Off: 1<<64 - 4, Value: 1<<32 - 1},
		{Kind: Call, Payload: ops},
		{Kind: Open, Payload: Grants{RAM: 1, VRAM: 2, View: 3}.Encode()},
		{Kind: Count},
	} {
		require.True(t, guest.Done())
		require.False(t, host.Pending())
		guest.Post(r)
		require.False(t, guest.Done())
		require.True(t, host.Pending())
		require.True(t, host.Unanswered())
		got, ok, err := host.Take()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, r, got)
		require.True(t, host.Unanswered(), "it is taken, and not answered")
		_, ok, _ = host.Take()
		require.False(t, ok, "once")
		a := Answer{Failed: r.Kind == Call, Value: r.Value + 1, Payload: r.Payload}
		host.Reply(a)
		require.True(t, guest.Done())
		require.False(t, host.Unanswered())
		require.Equal(t, a, guest.Answer())
	}
	for _, r := range []Request{{}, {Kind: Count + 1}, {Kind: Read, Payload: []byte{1}}, {Kind: 1 << 31}} {
		guest.Post(r)
		_, ok, err := host.Take()
		require.True(t, ok)
		require.ErrorIs(t, err, ErrRequest)
		host.Reply(Answer{Failed: true})
		require.True(t, guest.Answer().Failed)
	}
	guest.Post(Request{Kind: Call})
	hostmem.SwapUint32(mem, 0x1c, MaxPayload+1)
	_, _, err = host.Take()
	require.ErrorIs(t, err, ErrRequest)
	host.Reply(Answer{Payload: make([]byte, 2*MailboxBytes)})
	require.Len(t, guest.Answer().Payload, MaxPayload)
	hostmem.SwapUint32(mem, 0x1c, 1<<32-1)
	require.Len(t, guest.Answer().Payload, MaxPayload, "what an Aggregator says is bounded, too")
	_, err = NewMailbox(mem[:MailboxBytes-1])
	require.Error(t, err)
	_, err = NewMailbox(append(make([]byte, 0, 2*MailboxBytes), mem...)[4:])
	require.Error(t, err)
}

func TestEncodings(t *testing.T) {
	for _, terms := range []Terms{{}, {PV: true, Polled: true, VRAM: 5, BAR1: 6, BAR3: 7, Base: 8}, {Multi: true, Direct: true}} {
		got, err := DecodeTerms(terms.Encode())
		require.NoError(t, err)
		require.Equal(t, terms, got)
	}
	g := Grants{RAM: 1, VRAM: 2, View: 3}
	got, err := DecodeGrants(g.Encode())
	require.NoError(t, err)
	require.Equal(t, g, got)
	c := Counters{}
	for i, v := range c.all() {
		*v = uint64(i + 1)
	}
	count, err := DecodeCounters(c.Encode())
	require.NoError(t, err)
	require.Equal(t, c, count)
	require.Equal(t, uint64(12), c.Refused, "the last one is in the list")
	require.Equal(t, Counters{}, c.Sub(c))
	for n := range 200 {
		_, err := DecodeTerms(make([]byte, n))
		require.Error(t, err, n)
		_, err = DecodeGrants(make([]byte, n))
		require.Equal(t, n != grantsBytes, err != nil, n)
		_, err = DecodeCounters(make([]byte, n))
		require.Equal(t, n != 8*12, err != nil, n)
	}
}

func TestView(t *testing.T) {
	terms := Terms{BAR1: 3 << 20, BAR3: 2 << 20}
	require.Equal(t, uint64(8192), ViewBytes(terms))
	r, err := hostmem.New(ViewBytes(terms))
	require.NoError(t, err)
	defer r.Release()
	v := NewView(r.Bytes())
	what, _ := v.Get(1279)
	require.Equal(t, uint32(Traps), what, "of a view that was not written")
	v.Set(1279, ShownReadOnly, 1<<30-1)
	what, page := v.Get(1279)
	require.Equal(t, uint32(ShownReadOnly), what)
	require.Equal(t, uint64(1<<30-1), page)
	what, _ = v.Get(1278)
	require.Zero(t, what)
}

// FuzzMailbox has a guest write anything into a mailbox and the Aggregator take it.
func FuzzMailbox(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0})
	f.Add(append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0}, Terms{VRAM: 1}.Encode()...))
	_, _, mem := sides(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		clear(mem)
		host, err := NewMailbox(mem)
		require.NoError(t, err)
		copy(mem, b)
		r, ok, err := host.Take()
		if ok && err == nil {
			require.LessOrEqual(t, len(r.Payload), MaxPayload)
			require.True(t, r.Kind >= Ask && r.Kind <= Count)
		}
		if ok {
			host.Reply(Answer{Payload: b})
			require.False(t, host.Unanswered())
		}
		if terms, err := DecodeTerms(b); err == nil {
			require.Equal(t, b[8:], terms.Encode()[8:])
		}
		if g, err := DecodeGrants(b); err == nil {
			require.Equal(t, b, g.Encode())
		}
		if c, err := DecodeCounters(b); err == nil {
			require.Equal(t, b, c.Encode())
		}
	})
}

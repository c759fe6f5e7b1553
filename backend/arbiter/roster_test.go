package arbiter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

var testKey = Key{0xab, 15: 0xcd}

const testKeyText = "ab0000000000000000000000000000cd"

func TestRosterAdmits(t *testing.T) {
	us := uint32(os.Getuid())
	r := Roster{
		"own":    {Share: sched.Share{Weight: 5}, Key: Key{8}},
		"others": {Share: sched.Share{Weight: 6}, Key: Key{9}, Users: []uint32{us + 1, us + 2}},
	}
	as, err := r.Admit(Peer{UID: us}, Hello{Name: "own", Key: Key{8}, Share: sched.Share{Weight: 1000, Reserve: 1, Class: sched.Latency, Priority: 9, SLA: time.Second}})
	require.NoError(t, err)
	require.Equal(t, Admission{Share: sched.Share{Weight: 5}, Payer: "guest own"}, as, "wishes count for nothing")
	as, err = r.Admit(Peer{UID: us + 2}, Hello{Name: "others", Key: Key{9}})
	require.NoError(t, err)
	require.Equal(t, uint32(6), as.Share.Weight)
	for name, c := range map[string]struct {
		peer  Peer
		hello Hello
	}{
		"no key":             {Peer{UID: us}, Hello{Name: "own"}},
		"another's key":      {Peer{UID: us}, Hello{Name: "own", Key: Key{9}}},
		"another user":       {Peer{UID: us + 1}, Hello{Name: "own", Key: Key{8}}},
		"a user not listed":  {Peer{UID: us}, Hello{Name: "others", Key: Key{9}}},
		"a guest not listed": {Peer{UID: us}, Hello{Name: "unknown"}},
	} {
		_, err := r.Admit(c.peer, c.hello)
		require.ErrorIs(t, err, unix.EACCES, name)
	}
	require.True(t, r.Shared())
	require.False(t, Roster{"a": {Users: []uint32{us, 0}}}.Shared())
}

func TestReadRoster(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "roster.toml")
	text := `
[[guest]]
name = "a"
key = "` + testKeyText + `"
weight = 3
cap = 50
reserve = 12.5
class = "latency"
priority = 4
sla = "150ms"
users = [1000, 0]

[[guest]]
name = "b"
key-file = "b.key"
`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err := ReadRoster(path)
	require.ErrorContains(t, err, "b.key", "it is not there")
	require.NoError(t, WriteNewKey(filepath.Join(dir, "b.key")))
	require.ErrorIs(t, WriteNewKey(filepath.Join(dir, "b.key")), os.ErrExist)
	b, err := ReadKey(filepath.Join(dir, "b.key"))
	require.NoError(t, err)
	require.NotZero(t, b)
	r, err := ReadRoster(path)
	require.NoError(t, err)
	require.Equal(t, Roster{
		"a": {Share: sched.Share{Weight: 3, Cap: 0.5, Reserve: 0.125, Class: sched.Latency, Priority: 4, SLA: 150 * time.Millisecond}, Key: testKey, Users: []uint32{1000, 0}},
		"b": {Key: b},
	}, r)
}

func TestRosterRefuses(t *testing.T) {
	guest := func(more string) string { return "[[guest]]\nname = \"a\"\nkey = \"" + testKeyText + "\"\n" + more }
	for name, c := range map[string]struct{ text, why string }{
		"empty":           {"", "no guest"},
		"not TOML":        {"guests: a", "line 1"},
		"unknown setting": {guest("wieght = 3"), "guest.wieght"},
		"unknown table":   {guest("[other]\na = 1"), "other"},
		"no name":         {"[[guest]]\nkey = \"" + testKeyText + "\"", "guest name"},
		"bad name":        {"[[guest]]\nname = \"a b\"", "guest name"},
		"no key":          {"[[guest]]\nname = \"a\"", "new-key"},
		"short key":       {"[[guest]]\nname = \"a\"\nkey = \"ab\"", "32 hexadecimal digits"},
		"key of zeros":    {"[[guest]]\nname = \"a\"\nkey = \"" + strings.Repeat("0", 32) + "\"", "zeros"},
		"two keys":        {guest("key-file = \"x\""), "give one"},
		"twice":           {guest("") + guest(""), "twice"},
		"weight":          {guest("weight = 10001"), "weight 10001"},
		"negative weight": {guest("weight = -1"), "weight"},
		"cap":             {guest("cap = 101"), "cap"},
		"not a number":    {guest("cap = nan"), "cap"},
		"reserves":        {guest("reserve = 60\n") + strings.Replace(guest("reserve = 60"), `"a"`, `"b"`, 1), "120.0 %"},
		"user":            {guest("users = [\"root\"]"), "users"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseRoster([]byte(c.text), func(string) (Key, error) { return Key{1}, nil })
			require.ErrorContains(t, err, c.why)
		})
	}
}

// Files with secrets that others can read are refused, with the command that mends it.
func TestPrivateFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	require.NoError(t, WriteNewKey(path))
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o777} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := ReadKey(path)
		require.ErrorContains(t, err, "chmod 600 "+path, "%#o", mode)
	}
	t.Setenv(credentialsEnv, dir)
	require.NoError(t, os.Chmod(path, 0o440))
	_, err := ReadKey(path)
	require.NoError(t, err, "systemd has made it for us")
	require.NoError(t, os.Chmod(path, 0o444))
	_, err = ReadKey(path)
	require.ErrorContains(t, err, "chmod 600")

	require.NoError(t, os.Chmod(path, 0o400))
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(path, 1, 0))
		_, err = ReadKey(path)
		require.ErrorContains(t, err, "belongs to user 1")
	}
	_, err = ReadKey(dir)
	require.ErrorContains(t, err, "not a regular file")
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	_, err = ReadKey(fifo)
	require.ErrorContains(t, err, "not a regular file")
	large := filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(large, make([]byte, 4096), 0o600))
	_, err = ReadKey(large)
	require.ErrorContains(t, err, "4096 bytes")
}

// Over sockets, a guest is what its key says: none is another guest, or what it wishes to be.
func TestRosterOverSockets(t *testing.T) {
	noLeaks(t)
	s, socket := serve(t, Config{Admit: Roster{"a": {Share: sched.Share{Weight: 3}, Key: Key{1}}, "b": {Key: Key{2}}}.Admit})
	take := func(h Hello) (*Seat, error) { return Take(context.Background(), Taking{Socket: socket, Hello: h}) }
	wish := sched.Share{Weight: sched.MaxWeight, Reserve: 1}
	a, err := take(Hello{Name: "a", Key: Key{1}, Share: wish})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		hello Hello
		errno unix.Errno
	}{
		"the same guest again":    {Hello{Name: "a", Key: Key{1}}, unix.EBUSY},
		"another guest":           {Hello{Name: "b", Key: Key{1}}, unix.EACCES},
		"a guest without its key": {Hello{Name: "b"}, unix.EACCES},
		"a new guest":             {Hello{Name: "c", Key: Key{1}}, unix.EACCES},
	} {
		_, err := take(c.hello)
		var refused *RefusedError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, c.errno, refused.Errno, name)
	}
	require.Len(t, s.Stats()[0].Guests, 1)
	require.Equal(t, sched.Share{Weight: 3}, s.Stats()[0].Guests[0].Share)
	require.NoError(t, a.Close())
	eventually(t, "the seat is free", func() bool {
		a, err = take(Hello{Name: "a", Key: Key{1}})
		return err == nil
	})
	require.NoError(t, a.Close())
}

func FuzzRoster(f *testing.F) {
	f.Add([]byte("[[guest]]\nname = \"a\"\nkey = \"" + testKeyText + "\"\nweight = 3\ncap = 50\nreserve = 1\nclass = \"latency\"\npriority = 2\nsla = \"1s\"\nusers = [1]\n"))
	f.Add([]byte("[[guest]]\nname = \"b\"\nkey-file = \"k\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRoster(text, func(path string) (Key, error) {
			if path == "none" {
				return Key{}, errors.New("no such key")
			}
			return Key{1}, nil
		})
		if err != nil {
			return
		}
		sum := 0.0
		for name, e := range r {
			require.NoError(t, checkName(name))
			require.NoError(t, e.Share.Check())
			require.NotZero(t, e.Key)
			sum += e.Share.Reserve
		}
		require.LessOrEqual(t, sum, 1.001, fmt.Sprint(r))
	})
}

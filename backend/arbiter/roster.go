package arbiter

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// Entry is the entry of a guest in a Roster.
type Entry struct {
	Share sched.Share
	// Needs are what the guest is promised of the GPU, in place of what it wishes for.
	Needs Amounts
	Key   Key
	// Users are the users of the host who may start the guest; empty stands for the user who
	// runs the arbiter, and root.
	Users []uint32
}

// Roster has the guests that an arbiter admits, by name.
type Roster map[string]Entry

// Admit is a Config.Admit: it admits the listed guests if their starters know their keys, with
// the listed shares instead of those that they wish for. Each pays for itself.
func (r Roster) Admit(p Peer, h Hello) (Admission, error) {
	e, ok := r[h.Name]
	if subtle.ConstantTimeCompare(e.Key[:], h.Key[:]) != 1 || !ok {
		return Admission{}, fmt.Errorf("guest %s is not listed, or its key is another: %w", h.Name, unix.EACCES)
	}
	allowed := slices.Contains(e.Users, p.UID)
	if len(e.Users) == 0 {
		allowed = ownUser(p.UID)
	}
	if !allowed {
		return Admission{}, fmt.Errorf("guest %s may not be started by user %d: %w", h.Name, p.UID, unix.EACCES)
	}
	return Admission{Share: e.Share, Needs: e.Needs, Payer: "guest " + h.Name}, nil
}

// Shared reports whether users other than the arbiter's own, and root, may start guests.
func (r Roster) Shared() bool {
	for _, e := range r {
		if slices.ContainsFunc(e.Users, func(uid uint32) bool { return !ownUser(uid) }) {
			return true
		}
	}
	return false
}

// rosterFile is a roster as it stands in a file; docs/scheduling.md describes it.
type rosterFile struct {
	Guests []rosterEntry `toml:"guest"`
}

type rosterEntry struct {
	Name     string        `toml:"name"`
	Key      string        `toml:"key"`
	KeyFile  string        `toml:"key-file"`
	Weight   uint32        `toml:"weight"`
	Cap      float64       `toml:"cap"`     // percent, as on the command line
	Reserve  float64       `toml:"reserve"` // percent
	Class    sched.Class   `toml:"class"`
	Priority uint32        `toml:"priority"`
	SLA      time.Duration `toml:"sla"`
	Channels uint32        `toml:"channels"`
	Contexts uint32        `toml:"contexts"`
	VRAM     uint64        `toml:"vram-mib"`
	Users    []uint32      `toml:"users"`
}

const percent = 100

// maxRoster bounds the file, bytes.
const maxRoster = 1 << 20

// ReadRoster reads a roster from a TOML file, which only its owner may be able to read. Paths
// of keys in it are relative to its directory.
func ReadRoster(path string) (Roster, error) {
	text, err := readPrivate(path, maxRoster)
	if err != nil {
		return nil, fmt.Errorf("roster: %w", err)
	}
	r, err := parseRoster(text, func(key string) (Key, error) {
		if !filepath.IsAbs(key) {
			key = filepath.Join(filepath.Dir(path), key)
		}
		return ReadKey(key)
	})
	if err != nil {
		return nil, fmt.Errorf("roster %s: %w", path, err)
	}
	return r, nil
}

// parseRoster reads a roster; readKey reads the keys that stand in files.
func parseRoster(text []byte, readKey func(path string) (Key, error)) (Roster, error) {
	var file rosterFile
	meta, err := toml.Decode(string(text), &file)
	if err != nil {
		return nil, err
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("unknown setting %s (want [[guest]] with name, key or key-file, weight, cap, reserve, class, priority, sla, channels, contexts, vram-mib, users)", unknown[0])
	}
	if len(file.Guests) == 0 {
		return nil, errors.New("it lists no guest: add a [[guest]] with a name and a key")
	}
	r, reserved := Roster{}, 0.0
	for _, g := range file.Guests {
		if err := checkName(g.Name); err != nil {
			return nil, err
		}
		if _, twice := r[g.Name]; twice {
			return nil, fmt.Errorf("guest %s is listed twice", g.Name)
		}
		e := Entry{Share: sched.Share{Weight: g.Weight, Cap: g.Cap / percent, Reserve: g.Reserve / percent,
			Class: g.Class, Priority: g.Priority, SLA: g.SLA}, Needs: Amounts{Channels: g.Channels, Contexts: g.Contexts, VRAM: g.VRAM * MiB}, Users: g.Users}
		if g.VRAM >= maxVRAM/MiB {
			return nil, fmt.Errorf("guest %s: %d MiB of memory", g.Name, g.VRAM)
		}
		if err := e.Share.Check(); err != nil {
			return nil, fmt.Errorf("guest %s: %w", g.Name, err)
		}
		reserved += g.Reserve
		switch {
		case g.Key != "" && g.KeyFile != "":
			err = errors.New("both key and key-file; give one")
		case g.KeyFile != "":
			e.Key, err = readKey(g.KeyFile)
		default:
			e.Key, err = ParseKey(g.Key)
		}
		if err != nil {
			return nil, fmt.Errorf("guest %s: %w", g.Name, err)
		}
		r[g.Name] = e
	}
	if reserved > percent+1e-6 {
		return nil, fmt.Errorf("%.1f %% of the engine's time are reserved in all; at most 100 can be", reserved)
	}
	return r, nil
}

// ParseKey reads a key as text: 32 hexadecimal digits.
func ParseKey(text string) (k Key, err error) {
	b, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != keyBytes {
		return k, fmt.Errorf("a key has %d hexadecimal digits: make one with pvdrm arbiter new-key FILE", 2*keyBytes)
	}
	copy(k[:], b)
	if k == (Key{}) {
		return k, errors.New("a key of zeros is none: make one with pvdrm arbiter new-key FILE")
	}
	return k, nil
}

// ReadKey reads a key from a file, which only its owner may be able to read.
func ReadKey(path string) (Key, error) {
	const most = 128 // bytes: the digits and white space
	text, err := readPrivate(path, most)
	if err != nil {
		return Key{}, fmt.Errorf("key: %w", err)
	}
	k, err := ParseKey(string(text))
	if err != nil {
		return k, fmt.Errorf("key %s: %w", path, err)
	}
	return k, nil
}

// WriteNewKey makes a key and writes it to a new file, for its owner only.
func WriteNewKey(path string) error {
	var k Key
	_, _ = rand.Read(k[:]) // never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("new key: %w", err)
	}
	_, err = fmt.Fprintln(f, hex.EncodeToString(k[:]))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("new key: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// credentialsEnv names the directory in which systemd puts the credentials of a service.
const credentialsEnv = "CREDENTIALS_DIRECTORY"

// readPrivate reads a file of at most so many bytes that only this user, or root, can read and
// change.
func readPrivate(path string, most int64) ([]byte, error) {
	// Without waiting for the other end of a pipe; readPrivate refuses non-files below.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	var st unix.Stat_t
	if err := withFD(f, func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, fmt.Errorf("%s: %w", path, os.NewSyscallError("fstat", err))
	}
	// systemd's copies are readable for the service alone, by means of an access list that shows
	// as permissions of a group.
	credentials := os.Getenv(credentialsEnv)
	loaded := credentials != "" && filepath.Dir(filepath.Clean(path)) == filepath.Clean(credentials)
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s is not a regular file", path)
	case st.Uid != 0 && st.Uid != uint32(os.Geteuid()):
		return nil, fmt.Errorf("%s belongs to user %d, who could change it: chown %d %s", path, st.Uid, os.Geteuid(), path)
	case st.Mode&0o077 != 0 && !loaded, st.Mode&0o007 != 0:
		return nil, fmt.Errorf("%s can be read by others (permissions %#o): chmod 600 %s", path, st.Mode&0o777, path)
	case st.Size > most:
		return nil, fmt.Errorf("%s has %d bytes; the most is %d", path, st.Size, most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

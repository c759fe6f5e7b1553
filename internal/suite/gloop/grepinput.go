package gloop

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	grepLongest = 32       // bytes of a word
	grepChunk   = 64 << 10 // of a file that one step looks at
	grepSlack   = grepLongest + 1
	grepFiles   = 12      // of a made-up directory of size 1
	grepMost    = 1 << 20 // files of a directory
)

// grepWords are the words that are looked for.
var grepWords = strings.Fields(`the of and to a in is that for it as was with be by on not he his but at are this have from or had an they which one you
	int char void const static return if else while for struct include define sizeof unsigned
	func package import type range error nil string err test x y i n value name file line`)

// GrepWords returns the words that grep looks for.
func GrepWords() []string {
	words := slices.Clone(grepWords)
	slices.Sort(words)
	return slices.Compact(words)
}

// grepFile is a file that is searched.
type grepFile struct {
	path string
	size int64
}

// grepInput is files and a hash table of the words.
type grepInput struct {
	dir   string // to be removed; "" for one that was given
	files []grepFile
	words []string
	table []uint32
	text  []byte // of the words, each padded to grepLongest
}

func makeGrepInput(dir string, size int) (*grepInput, error) {
	g := &grepInput{words: GrepWords()}
	g.hash()
	if dir == "" {
		made, err := os.MkdirTemp("", "gloop-grep")
		if err != nil {
			return nil, err
		}
		g.dir, dir = made, made
		if err := g.makeFiles(size); err != nil {
			return g, err
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return g, err
	}
	return g, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if len(g.files) == grepMost {
			return fmt.Errorf("%s has more than %d files; choose a smaller directory", dir, grepMost)
		}
		g.files = append(g.files, grepFile{path: path, size: info.Size()})
		return nil
	})
}

// remove removes what makeGrepInput made.
func (g *grepInput) remove() error {
	if g == nil || g.dir == "" {
		return nil
	}
	return os.RemoveAll(g.dir)
}

// forget has the machine's kernel drop what it has cached of the files.
func (g *grepInput) forget() error {
	names := make([]string, len(g.files))
	for i, f := range g.files {
		names[i] = f.path
	}
	return GrepForget(names)
}

// GrepForget has the machine's kernel drop what it has cached of files, after it has written what is new of them.
func GrepForget(names []string) error {
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		err = file.Sync() // what was not written yet would stay
		if err == nil {
			err = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// hash fills the table.
func (g *grepInput) hash() {
	g.table = make([]uint32, 1024)
	mask := uint32(len(g.table) - 1)
	for i, w := range g.words {
		g.text = append(append(g.text, w...), make([]byte, grepLongest-len(w))...)
		h := uint32(2166136261)
		for k := range len(w) {
			h = (h ^ uint32(w[k])) * 16777619
		}
		for g.table[h&mask] != 0 {
			h++
		}
		g.table[h&mask] = uint32(i + 1)
	}
}

// makeFiles makes files of words, in folders, some of them larger than a chunk.
func (g *grepInput) makeFiles(size int) error {
	r := newRandom(71)
	for i := range grepFiles * size {
		var b bytes.Buffer
		for n := 1 + r.below(24<<10); b.Len() < n || i%8 == 0 && b.Len() < 2*grepChunk+n; {
			w := g.words[r.below(len(g.words))]
			switch r.below(8) {
			case 0:
				w += "s"
			case 1:
				w = fmt.Sprintf("%s_%x", w, r.bits())
			}
			b.WriteString(w)
			b.WriteByte(" \n.,;()\t"[r.below(8)])
		}
		dir := filepath.Join(g.dir, fmt.Sprintf("d%d", i%4))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.txt", i)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// count is the reference: it splits each file at what is no letter.
func (g *grepInput) count() ([]uint32, error) {
	number := map[string]int{}
	for i, w := range g.words {
		number[w] = i
	}
	counts := make([]uint32, len(g.words))
	for _, f := range g.files {
		b, err := os.ReadFile(f.path)
		if err != nil {
			return nil, err
		}
		for at := 0; at < len(b); at++ {
			n := at
			for n < len(b) && grepLetters[b[n]] {
				n++
			}
			if n == at {
				continue
			}
			if i, ok := number[string(b[at:n])]; ok {
				counts[i]++
			}
			at = n
		}
	}
	return counts, nil
}

// grepLetters are those of words.
var grepLetters = func() (is [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") {
		is[c] = true
	}
	return is
}()

// grepCounted has the counts of the last directory that was given.
var grepCounted struct {
	sync.Mutex
	key    string
	counts []uint32
}

// counted is count, which it asks once for a directory that was given, as long as no file of it has another size.
func (g *grepInput) counted() ([]uint32, error) {
	if g.dir != "" {
		return g.count()
	}
	digest := sha256.New()
	for _, f := range g.files {
		fmt.Fprintf(digest, "%d %s\n", f.size, f.path)
	}
	key := string(digest.Sum(nil))
	grepCounted.Lock()
	defer grepCounted.Unlock()
	if grepCounted.key != key {
		counts, err := g.count()
		if err != nil {
			return nil, err
		}
		grepCounted.key, grepCounted.counts = key, counts
	}
	return grepCounted.counts, nil
}

// GrepCounts returns the files of a directory, and how often each of GrepWords that occurs does so in them.
func GrepCounts(dir string) (files []string, counts map[string]uint32, err error) {
	g, err := makeGrepInput(dir, 0)
	if err != nil {
		return nil, nil, err
	}
	list, err := g.counted()
	if err != nil {
		return nil, nil, err
	}
	for _, f := range g.files {
		files = append(files, f.path)
	}
	counts = map[string]uint32{}
	for i, w := range g.words {
		if list[i] > 0 {
			counts[w] = list[i]
		}
	}
	return files, counts, nil
}

// MakeGrepText makes so many megabytes of text in a directory, in files of 4 to 124 KB. About a third of its
// words are those that grep looks for; the others are random letters. It is the same each time.
func MakeGrepText(dir string, megabytes int) error {
	r, words := newRandom(73), GrepWords()
	var b []byte
	for left, n := megabytes<<20, 0; left > 0; n++ {
		b = b[:0]
		for size := min(4<<10+r.below(120<<10), left); len(b) < size; {
			switch r.below(3) {
			case 0:
				b = append(b, words[r.below(len(words))]...)
			default:
				for range 3 + r.below(8) {
					b = append(b, byte('a'+r.below(26)))
				}
			}
			b = append(b, "        \n.,;()-"[r.below(15)])
		}
		left -= len(b)
		folder := filepath.Join(dir, fmt.Sprintf("d%d", n/256))
		if n%256 == 0 {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("f%d.txt", n)), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

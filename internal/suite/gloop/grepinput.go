package gloop

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	for _, f := range g.files {
		file, err := os.Open(f.path)
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
		for at := 0; at < len(b); {
			n := bytes.IndexFunc(b[at:], func(c rune) bool {
				return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_')
			})
			if n < 0 {
				n = len(b) - at
			}
			if i, ok := number[string(b[at:at+n])]; ok {
				counts[i]++
			}
			at += n + 1
		}
	}
	return counts, nil
}

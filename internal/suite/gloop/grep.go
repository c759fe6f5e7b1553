package gloop

import (
	"errors"
	"fmt"
	"io"
	"os"

	"pvdrm/frontend/cuda"
)

const (
	grepThreads = 128
	grepBatch   = 4 << 20 // text that the ordinary version copies at once
)

// grepArgs is Grep of device/grep.h.
type grepArgs struct {
	Table         uint64
	Mask          uint32
	_             uint32
	Words, Counts uint64
}

// grepPart is GrepPart of device/grep.cu.
type grepPart struct{ At, From, To, N uint32 }

// search is a grep that is prepared.
type search struct {
	*job
	in      *grepInput
	m       []cuda.DevicePtr // table, words, counts, text, parts
	args    []byte
	text    []byte
	parts   []grepPart
	perText int // bytes copied at once

	loops *fileLoops // of the event loop
}

func prepareGrep(j *job) (task, error) {
	g := &search{job: j, perText: grepBatch}
	if j.Version == Split {
		g.perText = 1 // a part
	}
	var err error
	g.in, err = makeGrepInput(j.Dir, j.Size)
	t := task{work: g.work, check: g.check, close: func() error { return g.in.remove() }}
	if err != nil {
		return t, err
	}
	if g.m, err = j.uploads(g.in.table, g.in.text, 4*len(g.in.words)); err != nil {
		return t, err
	}
	g.args = bytesOf(grepArgs{Table: uint64(g.m[0]), Mask: uint32(len(g.in.table) - 1), Words: uint64(g.m[1]), Counts: uint64(g.m[2])})
	if j.Version.loops() {
		return t, nil
	}
	room, err := j.uploads(grepBatch+grepChunk+2*grepSlack, 16*(grepBatch+grepChunk)/64)
	g.m = append(g.m, room...)
	return t, err
}

func (g *search) work() error {
	if err := g.clear(g.m[2], 0, 4*len(g.in.words)); err != nil {
		return err
	}
	if g.Cold {
		if err := g.in.forget(); err != nil {
			return err
		}
	}
	if g.Version.loops() {
		return g.loopFiles()
	}
	for _, f := range g.in.files {
		if err := g.file(f); err != nil {
			return err
		}
	}
	return g.flush()
}

// file reads a file, chunk by chunk. A chunk begins a byte early, and ends as much late as a word
// may be long.
func (g *search) file(f grepFile) (err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for off := int64(0); off < f.size; off += grepChunk {
		before := min(off, 1)
		n := int(min(f.size-off, grepChunk+grepSlack) + before)
		at := len(g.text)
		g.text = append(g.text, make([]byte, n)...)
		err := g.timed(&g.phases.IO, func() error {
			got, err := file.ReadAt(g.text[at:], off-before)
			n = got
			return err
		})
		if err != nil && err != io.EOF { // it may have become shorter
			return err
		}
		g.text = g.text[:at+n]
		g.parts = append(g.parts, grepPart{At: uint32(at), From: uint32(before), To: uint32(min(int(before)+grepChunk, n)), N: uint32(n)})
		if len(g.text) >= g.perText || len(g.parts) == grepBatch/64 {
			if err := g.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush has the GPU look at what was read.
func (g *search) flush() error {
	if len(g.parts) == 0 {
		return nil
	}
	if err := g.write(g.m[3], g.text); err != nil {
		return err
	}
	if err := g.write(g.m[4], bytesOf(g.parts)); err != nil {
		return err
	}
	n := len(g.parts)
	g.text, g.parts = g.text[:0], g.parts[:0]
	return g.step("grep", n, grepThreads, g.args, g.m[3], g.m[4])
}

func (g *search) check() error {
	got := make([]uint32, len(g.in.words))
	if err := g.read(got, g.m[2]); err != nil {
		return err
	}
	want, err := g.in.counted()
	if err != nil {
		return err
	}
	for i, w := range g.in.words {
		if got[i] != want[i] {
			return fmt.Errorf("the word %q: %d times instead of %d", w, got[i], want[i])
		}
	}
	return nil
}

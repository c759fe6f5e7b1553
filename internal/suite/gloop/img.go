package gloop

import (
	"fmt"
	"os"
	"path/filepath"

	"pvdrm/frontend/cuda"
)

// Sizes of img; see device/img.h.
const (
	imgBytes     = 1024 // of an image
	imgDatabase  = 128  // images, with size 1
	imgQueries   = 8    // with size 1, up to imgMost
	imgMost      = 64
	imgThreads   = 128
	imgThreshold = 200_000
	imgNone      = 0xffffffff
	imgChunk     = 64 // images that a step reads
	imgBatch     = 1024
)

// matching is an image matching that is prepared.
type matching struct {
	*job
	*imgInput
	dir string
	m   []cuda.DevicePtr // found, queries, room for the database

	loops  *fileLoops // of the event loop
	wanted cuda.DevicePtr
}

func prepareImg(j *job) (task, error) {
	in := imgInputs.get(j.Size, func() imgInput { return makeImgInput(j.Size) })
	x := &matching{job: j, imgInput: in}
	n := len(x.queries) / imgBytes
	err := x.store()
	t := task{work: x.work, check: x.check, close: func() error { return os.RemoveAll(x.dir) }}
	if err != nil {
		return t, err
	}
	x.m, err = j.uploads(4 * n)
	if err != nil || j.Version.loops() {
		return t, err
	}
	queries := make([]byte, len(x.queries))
	if err := j.timed(&j.phases.IO, func() (err error) {
		queries, err = os.ReadFile(x.path("queries"))
		return err
	}); err != nil {
		return t, err
	}
	room, err := j.uploads(queries, imgBatch*imgBytes)
	x.m = append(x.m, room...)
	return t, err
}

// imgInput is images.
type imgInput struct{ database, queries []byte }

var imgInputs memo[imgInput]

// makeImgInput makes images. Every other query is one of the database, with noise.
func makeImgInput(size int) (x imgInput) {
	r := newRandom(83)
	image := func() []byte {
		b := make([]byte, imgBytes)
		for i := range b {
			b[i] = byte(r.bits())
		}
		return b
	}
	for range imgDatabase * size {
		x.database = append(x.database, image()...)
	}
	for i := range min(imgQueries*size, imgMost) {
		q := image()
		if i%2 == 0 {
			at := r.below(imgDatabase * size)
			copy(q, x.database[at*imgBytes:])
			for k := range q {
				q[k] ^= byte(r.below(8))
			}
		}
		x.queries = append(x.queries, q...)
	}
	return x
}

func (x *matching) path(name string) string { return filepath.Join(x.dir, name) }

func (x *matching) store() (err error) {
	if x.dir, err = os.MkdirTemp("", "gloop-img"); err != nil {
		return err
	}
	if err := os.WriteFile(x.path("database"), x.database, 0o644); err != nil {
		return err
	}
	return os.WriteFile(x.path("queries"), x.queries, 0o644)
}

func (x *matching) work() (err error) {
	n := len(x.queries) / imgBytes
	if err := x.clear(x.m[0], 0xff, 4*n); err != nil {
		return err
	}
	if x.Version.loops() {
		return x.loopImages()
	}
	images := imgBatch
	if x.Version == Split {
		images = imgChunk
	}
	file, err := os.Open(x.path("database"))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	all := len(x.database) / imgBytes
	room := make([]byte, images*imgBytes)
	for first := 0; first < all; first += images {
		b := room[:min(images, all-first)*imgBytes]
		if err := x.timed(&x.phases.IO, func() error {
			_, err := file.ReadAt(b, int64(first*imgBytes))
			return err
		}); err != nil {
			return err
		}
		if err := x.write(x.m[2], b); err != nil {
			return err
		}
		if err := x.step("img", n, imgThreads, x.m[1], x.m[2], uint32(first), uint32(len(b)/imgBytes), uint32(imgThreshold), x.m[0]); err != nil {
			return err
		}
	}
	return nil
}

func (x *matching) check() error {
	got := make([]uint32, len(x.queries)/imgBytes)
	if err := x.read(got, x.m[0]); err != nil {
		return err
	}
	for q, found := range got {
		if want := x.first(x.queries[q*imgBytes : (q+1)*imgBytes]); found != want {
			return fmt.Errorf("query %d: image %d of the database instead of %d", q, int32(found), int32(want))
		}
	}
	return nil
}

// first is the reference.
func (x *matching) first(q []byte) uint32 {
	for i := 0; i < len(x.database); i += imgBytes {
		sum := 0
		for k, v := range x.database[i : i+imgBytes] {
			d := int(v) - int(q[k])
			if sum += d * d; sum >= imgThreshold {
				break
			}
		}
		if sum < imgThreshold {
			return uint32(i / imgBytes)
		}
	}
	return imgNone
}

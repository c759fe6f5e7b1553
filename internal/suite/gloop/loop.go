package gloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/host"
)

// loopLaunch is a kernel on the event loop.
type loopLaunch struct {
	kernel  string
	blocks  int // physical blocks; 0 for as many as can be resident
	logical int // logical blocks
	threads int
	memory  []*cuda.HostMem
	paths   bool // it opens files
	bound   func(address string)
}

// loop runs a kernel on the event loop until no callback is left.
func (j *job) loop(l loopLaunch, args ...any) error {
	return j.timed(&j.phases.Kernel, func() error {
		stats, err := host.Run(context.Background(), j.config(l), args...)
		j.count(stats)
		return err
	})
}

// ready makes the memory of loops that are going to run, as part of the context. It makes none for other versions.
func (j *job) ready(list ...loopLaunch) error {
	if !j.Version.loops() {
		return nil
	}
	return j.timed(&j.phases.Init, func() (err error) {
		for _, l := range list {
			err = errors.Join(err, host.Prepare(j.config(l)))
		}
		return err
	})
}

func (j *job) config(l loopLaunch) host.Config {
	c := host.Config{Context: j.ctx, Pool: j.pool, Module: j.module, Kernel: l.kernel, Grid: [3]uint32{uint32(l.logical)}, Block: [3]uint32{uint32(l.threads)},
		Blocks: l.blocks, Memory: l.memory, Slice: j.Slice, Every: uint32(j.Suspend), Bound: l.bound, PathMax: 1}
	if l.paths {
		c.PathMax = pathMost
	}
	return c
}

func (j *job) count(s host.Stats) {
	j.launches += uint64(s.Launches)
	j.points += s.Callbacks
}

// resident is how many blocks run at once on any GPU: one on each multiprocessor.
func (j *job) resident() (int, error) {
	return j.ctx.Device().Attribute(cuda.AttributeMultiprocessorCount)
}

// pathMost is the most bytes of a path, with a zero.
const pathMost = 512

// room is a buffer for each physical block, which files and sockets are read into.
type room struct {
	at   cuda.DevicePtr
	host *cuda.HostMem
	// memory is nil for device memory, which costs a copy each time.
	memory []*cuda.HostMem
}

// room makes a buffer of n bytes for each of some physical blocks.
func (j *job) room(n, blocks int) (r room, err error) {
	if j.Bounce {
		r.at, err = j.alloc(n * blocks)
		return r, err
	}
	err = j.timed(&j.phases.Data, func() error {
		r.host, err = j.ctx.MemAllocHost(uint64(n * blocks))
		return err
	})
	if err == nil {
		r.at, r.memory = r.host.DevicePtr(), []*cuda.HostMem{r.host}
	}
	return r, err
}

// paths makes a table of paths for the GPU, each with a zero at its end, and returns how many bytes
// each has.
func (j *job) paths(names []string) (cuda.DevicePtr, int, error) {
	each := 1
	for _, name := range names {
		each = max(each, len(name)+1)
		if each > pathMost {
			return 0, 0, fmt.Errorf("%s: a path of more than %d bytes", name, pathMost-1)
		}
	}
	b := make([]byte, each*len(names))
	for i, name := range names {
		copy(b[i*each:], name)
	}
	p, err := j.upload(b)
	return p, each, err
}

// failed reports an error that a kernel wrote down: a negative errno, and a number that says where.
func (j *job) failed(p cuda.DevicePtr, where func(i int64) string) error {
	var word [2]int64
	if err := j.read(word[:], p); err != nil || word[0] == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", where(word[1]), unix.Errno(-word[0]))
}

// Of the event loop's grep and img; see device/grep.loop.cu and device/img.loop.cu.
const (
	grepRoom  = grepChunk + 64
	grepAhead = 4
	grepEach  = 16 // files of a logical block, at most
	imgAhead  = 2

	fileBlocks = 64 // physical blocks, at most, unless Options.Blocks says how many: each has granted memory
)

// searchArgs is Search of device/grep.loop.cu.
type searchArgs struct {
	Grep              grepArgs
	Paths, Room, Text uint64
	Path, Files, Each uint32
	_                 uint32
	Failed            uint64
}

// loopFiles has the GPU read the files itself.
func (g *search) loopFiles() error {
	if len(g.in.files) == 0 {
		return nil
	}
	if g.loops == nil { // the first time
		if err := g.loopRooms(); err != nil {
			return err
		}
	}
	l := g.loops
	each := max(1, min(grepEach, len(g.in.files)/l.blocks)) // all blocks have some
	args := searchArgs{Paths: uint64(l.paths), Room: uint64(l.room.at), Text: uint64(l.text), Path: uint32(l.path), Files: uint32(len(g.in.files)),
		Each: uint32(each), Failed: uint64(l.failures),
		Grep: grepArgs{Table: uint64(g.m[0]), Mask: uint32(len(g.in.table) - 1), Words: uint64(g.m[1]), Counts: uint64(g.m[2])}}
	if err := g.loop(loopLaunch{kernel: "grep", blocks: l.blocks, logical: (len(g.in.files) + each - 1) / each, threads: grepThreads,
		memory: l.room.memory, paths: true}, bytesOf(args)); err != nil {
		return err
	}
	return g.failed(l.failures, func(i int64) string {
		if i < 0 || i >= int64(len(g.in.files)) {
			return "a file"
		}
		return g.in.files[i].path
	})
}

// fileLoops is what physical blocks that read files have.
type fileLoops struct {
	blocks          int
	room            room
	text            cuda.DevicePtr // of each block, what it has fetched of its room
	paths, failures cuda.DevicePtr
	path            int // bytes of each
}

// fileLoops makes it, with ahead pieces of n bytes in the room of each block.
func (j *job) fileLoops(n, ahead int, names []string) (l *fileLoops, err error) {
	l = &fileLoops{}
	if l.blocks, err = j.resident(); err != nil {
		return nil, err
	}
	if l.blocks = min(l.blocks, fileBlocks); j.Blocks > 0 {
		l.blocks = j.Blocks
	}
	if l.room, err = j.room(n*ahead, l.blocks); err != nil {
		return nil, err
	}
	if l.text, err = j.alloc(n * l.blocks); err != nil {
		return nil, err
	}
	if l.paths, l.path, err = j.paths(names); err != nil {
		return nil, err
	}
	l.failures, err = j.alloc(16)
	return l, err
}

func (g *search) loopRooms() (err error) {
	var names []string
	for _, f := range g.in.files {
		names = append(names, f.path)
	}
	g.loops, err = g.fileLoops(grepRoom, grepAhead, names)
	return err
}

// matchingArgs is Matching of device/img.loop.cu.
type matchingArgs struct {
	Queries, Database, Room, Chunk uint64
	Wanted, Found, Failed          uint64
	All, Images, Each, Threshold   uint32
}

// loopImages has the GPU read queries and database itself.
func (x *matching) loopImages() (err error) {
	n := len(x.queries) / imgBytes
	if x.loops == nil { // the first time
		if x.loops, err = x.fileLoops(imgChunk*imgBytes, imgAhead, []string{x.path("queries"), x.path("database")}); err != nil {
			return err
		}
		if x.wanted, err = x.alloc(len(x.queries)); err != nil {
			return err
		}
	}
	l := x.loops
	chunks := (len(x.database)/imgBytes + imgChunk - 1) / imgChunk
	each := (chunks + l.blocks - 1) / l.blocks // of a logical block: each opens the database
	args := bytesOf(matchingArgs{Queries: uint64(l.paths), Database: uint64(l.paths) + uint64(l.path), Room: uint64(l.room.at), Chunk: uint64(l.text),
		Wanted: uint64(x.wanted), Found: uint64(x.m[0]), Failed: uint64(l.failures),
		All: uint32(n), Images: uint32(len(x.database) / imgBytes), Each: uint32(each), Threshold: imgThreshold})
	for _, k := range []loopLaunch{{kernel: "img_queries", blocks: 1, logical: 1}, {kernel: "img", blocks: l.blocks, logical: (chunks + each - 1) / each}} {
		k.threads, k.memory, k.paths = imgThreads, l.room.memory, true
		if err := x.loop(k, args); err != nil {
			return err
		}
	}
	return x.failed(l.failures, func(int64) string { return "the images" })
}

// serverArgs is Server of device/server.h.
type serverArgs struct {
	IP, Port uint32
	Room     uint64
	In, Out  uint32
	Failed   uint64
}

// looped makes a server on the event loop. It has a block for each client, but no more than can be
// resident.
func (s *server) looped(kernel string, threads int, args ...any) (task, error) {
	blocks, err := s.resident()
	if err != nil {
		return task{}, err
	}
	blocks = min(blocks, s.clients)
	r, err := s.room(s.in+s.out, blocks)
	if err != nil {
		return task{}, err
	}
	failures, err := s.alloc(16)
	if err != nil {
		return task{}, err
	}
	const loopback = 127<<24 | 1
	params := append([]any{bytesOf(serverArgs{IP: loopback, Room: uint64(r.at), In: uint32(s.in), Out: uint32(s.out), Failed: uint64(failures)})}, args...)
	s.serve = func(ctx context.Context) ([]string, func() error, error) {
		bound, ended := make(chan string, blocks), make(chan error, 1)
		l := loopLaunch{kernel: kernel, blocks: blocks, logical: blocks, threads: threads, memory: r.memory, bound: func(a string) { bound <- a }}
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			stats, err := host.Run(ctx, s.config(l), params...)
			s.count(stats)
			ended <- err
		}()
		wait := func() error {
			defer cancel()
			return errors.Join(<-ended, s.failed(failures, func(int64) string { return "a socket" }))
		}
		var all []string
		for range blocks {
			select {
			case a := <-bound:
				all = append(all, a)
			case err := <-ended:
				ended <- err
				return nil, nil, errors.Join(errors.New("the server ended before it listened"), wait())
			case <-time.After(patience):
				cancel() // the blocks that listen
				return nil, nil, errors.Join(errors.New("a block of the server does not listen"), wait())
			}
		}
		return all, wait, nil
	}
	return s.task(), nil
}

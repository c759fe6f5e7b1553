package gloop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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

func (j *job) config(l loopLaunch) host.Config {
	return host.Config{Context: j.ctx, Module: j.module, Kernel: l.kernel, Grid: [3]uint32{uint32(l.logical)}, Block: [3]uint32{uint32(l.threads)},
		Blocks: l.blocks, Memory: l.memory, Slice: j.Slice, Every: uint32(j.Suspend), Bound: l.bound, PathMax: pathMost}
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

// searchArgs is Search of device/grep.loop.cu.
type searchArgs struct {
	Grep   grepArgs
	Paths  uint64
	Room   uint64
	Each   uint32
	_      uint32
	Failed uint64
}

// loopFiles has the GPU read the files itself.
func (g *search) loopFiles() error {
	if len(g.in.files) == 0 {
		return nil
	}
	if g.paths == 0 { // the first time
		var names []string
		for _, f := range g.in.files {
			names = append(names, f.path)
		}
		blocks, err := g.resident()
		if err != nil {
			return err
		}
		if g.room, err = g.job.room(grepChunk+64, blocks); err != nil {
			return err
		}
		if g.paths, g.each, err = g.job.paths(names); err != nil {
			return err
		}
		if g.failures, err = g.alloc(16); err != nil {
			return err
		}
	}
	args := searchArgs{Paths: uint64(g.paths), Room: uint64(g.room.at), Each: uint32(g.each), Failed: uint64(g.failures),
		Grep: grepArgs{Table: uint64(g.m[0]), Mask: uint32(len(g.in.table) - 1), Words: uint64(g.m[1]), Counts: uint64(g.m[2])}}
	if err := g.loop(loopLaunch{kernel: "grep", logical: len(g.in.files), threads: grepThreads, memory: g.room.memory}, bytesOf(args)); err != nil {
		return err
	}
	return g.failed(g.failures, func(i int64) string {
		if i < 0 || i >= int64(len(g.in.files)) {
			return "a file"
		}
		return g.in.files[i].path
	})
}

// matchingArgs is Matching of device/img.loop.cu.
type matchingArgs struct {
	Queries, Database, Room uint64
	Images, Threshold       uint32
	Found, Failed           uint64
	All, Each               uint32
}

// loopImages has the GPU read queries and database itself.
func (x *matching) loopImages() error {
	blocks, err := x.resident()
	if err != nil {
		return err
	}
	all := len(x.queries) / imgBytes
	each := (all + blocks - 1) / blocks // a block reads the database once for all its queries
	r, err := x.room((imgChunk+each)*imgBytes, blocks)
	if err != nil {
		return err
	}
	paths, bytes, err := x.paths([]string{x.path("queries"), x.path("database")})
	if err != nil {
		return err
	}
	failures, err := x.alloc(16)
	if err != nil {
		return err
	}
	args := bytesOf(matchingArgs{Queries: uint64(paths), Database: uint64(paths) + uint64(bytes), Room: uint64(r.at),
		Images: uint32(len(x.database) / imgBytes), Threshold: imgThreshold, Found: uint64(x.m[0]), Failed: uint64(failures),
		All: uint32(all), Each: uint32(each)})
	if err := x.loop(loopLaunch{kernel: "img", logical: (all + each - 1) / each, threads: imgThreads, memory: r.memory}, args); err != nil {
		return err
	}
	return x.failed(failures, func(int64) string { return filepath.Join(x.dir, "database") })
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

// Package baseline is a DRM file without a device: it answers every call at once
// and computes nothing. The same program on it, in the same guest, shows what
// the program itself costs there, emulated processor included; what is above
// that floor is the price of the device and of the way to it.
//
// A File's mutex guards all of it.
package baseline

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/gem"
)

// Windows of addresses, as large as those of a small GPU.
const (
	vramBase   = 1 << 40
	systemBase = 1 << 44
	windowSize = 1 << 40
	vramPage   = 2 << 20
	systemPage = 4 << 10
	maxObjects = 1 << 14
)

// params are the values of GETPARAM: limits that no program of the suite reaches.
var params = map[drm.Param]uint64{
	drm.ParamComputeMajor: 7, drm.ParamMultiprocs: 1, drm.ParamWarpSize: 32, drm.ParamMaxThreads: 1024,
	drm.ParamMaxBlockX: 1024, drm.ParamMaxBlockY: 1024, drm.ParamMaxBlockZ: 64,
	drm.ParamMaxGridX: 1<<31 - 1, drm.ParamMaxGridY: 65535, drm.ParamMaxGridZ: 65535,
	drm.ParamSharedPerBlock: 48 << 10, drm.ParamRegsPerBlock: 64 << 10, drm.ParamMaxThreadsSM: 2048, drm.ParamMaxBlocksSM: 32, drm.ParamDevice: 0, drm.ParamTextures: 0, drm.ParamCooperative: 0, drm.ParamWords: 0, drm.ParamShares: 0, drm.ParamMaxCluster: 0, drm.ParamLibraries: 0, drm.ParamImages: 0, drm.ParamPeers: 0,
	drm.ParamConstBytes: 64 << 10, drm.ParamClockKHz: 1e6, drm.ParamMemClockKHz: 1e6, drm.ParamMemBusBits: 64,
	drm.ParamL2Bytes: 1 << 20, drm.ParamVRAMBytes: windowSize, drm.ParamMaxChannels: 64, drm.ParamMaxParamBytes: 4096,
	drm.ParamVRAMBase: vramBase, drm.ParamVRAMSize: windowSize, drm.ParamVRAMPage: vramPage,
	drm.ParamSystemBase: systemBase, drm.ParamSystemSize: windowSize, drm.ParamSystemPage: systemPage,
}

// File is an open DRM file without a device.
type File struct {
	mu       sync.Mutex
	objects  *gem.Table[*object]
	modules  *gem.Table[string]
	channels *gem.Table[*uint64] // sequence number of the last batch
	nextFunc uint32
	mapped   map[uint64]*object // system memory by GPU address
}

var _ drm.File = (*File)(nil)

type object struct {
	size uint64
	mem  []byte // nil in VRAM
}

// Open opens a file.
func Open() *File {
	return &File{
		objects:  gem.NewTable[*object]("GEM object", maxObjects),
		modules:  gem.NewTable[string]("module", maxObjects),
		channels: gem.NewTable[*uint64]("channel", maxObjects),
		mapped:   map[uint64]*object{},
	}
}

// Version implements drm.File.
func (f *File) Version() (drm.Info, error) {
	return drm.Info{Name: drm.DriverName, Desc: "nothing", Major: drm.DriverMajor, Minor: drm.DriverMinor}, nil
}

// GetParam implements drm.File. What is not known is 0.
func (f *File) GetParam(p drm.Param) (uint64, error) { return params[p], nil }

// GemNew implements drm.File. VRAM is a number only.
func (f *File) GemNew(size uint64, d drm.Domain, _ drm.GemFlags) (uint32, error) {
	o := &object{size: (size + vramPage - 1) &^ (vramPage - 1)}
	if d == drm.DomainSystem {
		o.size = (size + systemPage - 1) &^ (systemPage - 1)
		var err error
		if o.mem, err = unix.Mmap(-1, 0, int(o.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
			return 0, fmt.Errorf("object of %d bytes: mmap: %w", size, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects.Add(o)
}

func (f *File) object(handle uint32) (*object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects.Get(handle)
}

// GemMap implements drm.File.
func (f *File) GemMap(handle uint32) ([]byte, error) {
	o, err := f.object(handle)
	if err == nil && o.mem == nil {
		err = fmt.Errorf("object %d is in VRAM: %w", handle, syscall.ENXIO)
	}
	if err != nil {
		return nil, err
	}
	return o.mem, nil
}

// GemSize implements drm.File.
func (f *File) GemSize(handle uint32) (uint64, error) {
	o, err := f.object(handle)
	if err != nil {
		return 0, err
	}
	return o.size, nil
}

// GemClose implements drm.File.
func (f *File) GemClose(handle uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.objects.Take(handle)
	if err != nil || o.mem == nil {
		return err
	}
	for va, m := range f.mapped {
		if m == o {
			delete(f.mapped, va)
		}
	}
	return unix.Munmap(o.mem)
}

// VMBind implements drm.File: it remembers where system memory is.
func (f *File) VMBind(ops []drm.BindOp, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range ops {
		if op.Op == drm.BindUnmap {
			delete(f.mapped, op.Addr)
			continue
		}
		o, err := f.objects.Get(op.Handle)
		if err != nil {
			return err
		}
		if o.mem != nil {
			f.mapped[op.Addr] = o
		}
	}
	return nil
}

// ChannelAlloc implements drm.File.
func (f *File) ChannelAlloc() (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.channels.Add(new(uint64))
}

// ChannelFree implements drm.File.
func (f *File) ChannelFree(id uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.channels.Take(id)
	return err
}

// Exec implements drm.File: it is done at once. Small copies to system memory
// read zeroes, so that programs which look at a flag come to their end.
func (f *File) Exec(id uint32, stream []byte, _ []drm.Point) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seqno, err := f.channels.Get(id)
	if err == nil {
		_, err = drm.WalkCommands(stream, zeroFlags{f})
	}
	if err != nil {
		return 0, err
	}
	*seqno++
	return *seqno, nil
}

// Wait implements drm.File.
func (f *File) Wait(p drm.Point, _ time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	seqno, err := f.channels.Get(p.Channel)
	if err == nil && p.Seqno > *seqno {
		err = fmt.Errorf("point %d of channel %d, which has %d: %w", p.Seqno, p.Channel, *seqno, syscall.EINVAL)
	}
	return err
}

// zeroFlags is the sink of commands. The file's mutex is held.
type zeroFlags struct{ f *File }

// flagBytes is the size up to which a copy is taken for the reading of a flag.
// Larger ones would cost the program time that the copy engine of a device spends.
const flagBytes = 64

func (z zeroFlags) Copy(c drm.CopyCmd) error {
	if c.Width > flagBytes || c.Height != 1 {
		return nil
	}
	for va, o := range z.f.mapped {
		if at := c.Dst - va; c.Dst >= va && at < o.size && c.Width <= o.size-at {
			clear(o.mem[at : at+c.Width])
		}
	}
	return nil
}

func (zeroFlags) Fill(drm.FillCmd) error           { return nil }
func (zeroFlags) Launch(drm.LaunchCmd) error       { return nil }
func (zeroFlags) Task() error                      { return nil }
func (zeroFlags) Word(drm.WordCmd) error           { return nil }
func (zeroFlags) Call(drm.CallCmd) error           { return nil }
func (zeroFlags) Timestamp(drm.TimestampCmd) error { return nil }

// ModuleLoad implements drm.File. The source is kept and not looked at.
func (f *File) ModuleLoad(_ string, source []byte) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.modules.Add(string(source))
}

// ModuleUnload implements drm.File.
func (f *File) ModuleUnload(id uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.modules.Take(id)
	return err
}

// ModuleFunction implements drm.File. It reads the list of parameters, since
// programs need it to launch the kernel, and nothing else.
func (f *File) ModuleFunction(id uint32, name string) (uint32, drm.FunctionAttributes, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	source, err := f.modules.Get(id)
	if err != nil {
		return 0, drm.FunctionAttributes{}, err
	}
	attr, err := attributes(source, name)
	if err != nil {
		return 0, attr, fmt.Errorf("kernel %q: %w", name, err)
	}
	f.nextFunc++
	return f.nextFunc, attr, nil
}

// scalar are the sizes of parameters by their PTX type, without its first letter.
var scalar = map[string]uint32{"8": 1, "16": 2, "32": 4, "64": 8}

// attributes finds the parameters of a kernel: ".entry NAME(" and then
// ".param .TYPE NAME" for each, with commas between, up to ")".
func attributes(source, name string) (attr drm.FunctionAttributes, err error) {
	_, rest, found := strings.Cut(source, ".entry "+name+"(")
	list, _, closed := strings.Cut(rest, ")")
	if !found || !closed {
		return attr, syscall.ENOENT
	}
	attr.MaxThreads = uint32(params[drm.ParamMaxThreads])
	if strings.TrimSpace(list) == "" {
		return attr, nil
	}
	for param := range strings.SplitSeq(list, ",") {
		words := strings.Fields(param)
		if len(words) != 3 || words[0] != ".param" || len(words[1]) < 3 || strings.Contains(words[2], "[") {
			return attr, fmt.Errorf("parameter %q is no scalar: %w", param, syscall.EOPNOTSUPP)
		}
		size := scalar[words[1][2:]]
		if size == 0 {
			return attr, fmt.Errorf("parameter %q: no such type: %w", param, syscall.EINVAL)
		}
		at := (attr.ParamBytes + size - 1) &^ (size - 1)
		attr.Params = append(attr.Params, drm.FunctionParam{Offset: at, Size: size})
		attr.ParamBytes = at + size
	}
	return attr, nil
}

// ModuleGlobal implements drm.File. There are no variables.
func (f *File) ModuleGlobal(_ uint32, name string) (addr, size uint64, err error) {
	return 0, 0, fmt.Errorf("variable %q: %w", name, syscall.ENOENT)
}

// LostStatus implements drm.File.
func (f *File) LostStatus() (uint32, string, error) { return 0, "", nil }

// Close implements drm.File.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for h, o := range f.objects.All {
		if _, err := f.objects.Take(h); err == nil && o.mem != nil {
			errs = append(errs, unix.Munmap(o.mem))
		}
	}
	clear(f.mapped)
	return errors.Join(errs...)
}

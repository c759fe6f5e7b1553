package interpose

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// seen is what a filter sees of a call.
type seen struct {
	arch, nr uint32
	args     [6]uint64
}

// run is what Linux does with a filter: the instructions that ours have.
func run(t *testing.T, program []unix.SockFilter, c seen) uint32 {
	t.Helper()
	data := binary.LittleEndian.AppendUint32(nil, c.nr)
	data = binary.LittleEndian.AppendUint32(data, c.arch)
	data = binary.LittleEndian.AppendUint64(data, 0) // instruction pointer
	for _, a := range c.args {
		data = binary.LittleEndian.AppendUint64(data, a)
	}
	var acc uint32
	for pc := 0; pc < len(program); pc++ {
		in := program[pc]
		yes := false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[in.K:])
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ:
			yes = acc == in.K
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JGE:
			yes = acc >= in.K
		default:
			require.Fail(t, "an instruction that no filter of ours has", "%+v", in)
		}
		if yes {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	require.Fail(t, "the filter ends without an answer")
	return 0
}

// trapped says of a call what the filter is to say.
func trapped(opens bool, c seen) bool {
	node := func(flags uint64) bool {
		const never = unix.O_CREAT | unix.O_TRUNC | unix.O_APPEND | unix.O_DIRECTORY
		return opens && flags&unix.O_ACCMODE == unix.O_RDWR && flags&never == 0
	}
	switch {
	case c.arch != unix.AUDIT_ARCH_X86_64:
		return false
	case c.nr == unix.SYS_IOCTL:
		return drm.Request(c.args[1]).IsDRM()
	case c.nr == unix.SYS_MMAP:
		return c.args[5] >= drm.MapBase
	case c.nr == unix.SYS_OPEN:
		return node(c.args[1])
	case c.nr == unix.SYS_OPENAT:
		return node(c.args[2])
	}
	return false
}

func check(t *testing.T, c seen) {
	t.Helper()
	for _, opens := range []bool{false, true} {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if trapped(opens, c) {
			want = unix.SECCOMP_RET_USER_NOTIF
		}
		require.Equal(t, want, run(t, filter(opens), c), "%+v, opens %v", c, opens)
	}
}

func TestFilter(t *testing.T) {
	for _, e := range drm.Table {
		check(t, seen{unix.AUDIT_ARCH_X86_64, unix.SYS_IOCTL, [6]uint64{3, uint64(e.Request)}})
		// Linux takes the low half of a request only.
		check(t, seen{unix.AUDIT_ARCH_X86_64, unix.SYS_IOCTL, [6]uint64{3, 7<<32 | uint64(e.Request)}})
		require.True(t, trapped(false, seen{unix.AUDIT_ARCH_X86_64, unix.SYS_IOCTL, [6]uint64{3, uint64(e.Request)}}))
	}
	for _, handle := range []uint32{1, 1 << 13} {
		c := seen{unix.AUDIT_ARCH_X86_64, unix.SYS_MMAP, [6]uint64{5: drm.MapOffset(handle)}}
		require.True(t, trapped(false, c))
		check(t, c)
	}
	for nr := range uint32(500) {
		check(t, seen{arch: unix.AUDIT_ARCH_X86_64, nr: nr})
		check(t, seen{arch: unix.AUDIT_ARCH_X86_64, nr: nr, args: [6]uint64{1: unix.O_RDWR, 2: unix.O_RDWR}})
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(uint32(unix.AUDIT_ARCH_X86_64), uint32(unix.SYS_IOCTL), uint64(drm.IoctlVersion), uint64(0), uint64(0))
	f.Add(uint32(unix.AUDIT_ARCH_X86_64), uint32(unix.SYS_MMAP), uint64(4096), uint64(3), uint64(drm.MapBase))
	f.Add(uint32(unix.AUDIT_ARCH_X86_64), uint32(unix.SYS_OPENAT), uint64(4096), uint64(unix.O_RDWR|unix.O_CLOEXEC), uint64(0))
	f.Add(uint32(unix.AUDIT_ARCH_I386), uint32(unix.SYS_IOCTL), uint64(drm.IoctlVersion), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, arch, nr uint32, second, third, sixth uint64) {
		check(t, seen{arch, nr, [6]uint64{1: second, 2: third, 5: sixth}})
	})
}

// The arguments of ioctls that are changed here have their fields where the
// structs have them.
func TestOffsetsOfArguments(t *testing.T) {
	offset := func(value any, field string) int {
		f, ok := reflect.TypeOf(value).FieldByName(field)
		require.True(t, ok)
		return int(f.Offset)
	}
	waits := map[drm.Request]wait{}
	for _, e := range drm.Table {
		if w, ok := waitOf(e.Request); ok {
			waits[e.Request] = w
		}
	}
	require.Equal(t, map[drm.Request]wait{
		drm.IoctlWait:        {at: offset(drm.Wait{}, "TimeoutNS")},
		drm.IoctlGemCPUPrep:  {at: offset(drm.GemCPUPrep{}, "TimeoutNS")},
		drm.IoctlSyncobjWait: {at: offset(drm.SyncobjWait{}, "TimeoutNS"), absolute: true},
	}, waits)
	require.Equal(t, flagsAt, offset(drm.PrimeHandle{}, "Flags"))
	require.Equal(t, fdAt, offset(drm.PrimeHandle{}, "FD"))
}

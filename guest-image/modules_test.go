package guestimage

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// makeModule returns an ELF file with a .modinfo section, as kernel modules have.
func makeModule(info string) []byte {
	const names = "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	h.Shoff = uint64(64 + len(info) + len(names))
	write := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // a Buffer does not fail
	write(h)
	b.WriteString(info + names)
	write(elf.Section64{})
	write(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: 64, Size: uint64(len(info)), Addralign: 1})
	write(elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(64 + len(info)), Size: uint64(len(names)), Addralign: 1})
	return b.Bytes()
}

func TestModuleDepends(t *testing.T) {
	for info, want := range map[string][]string{
		"license=GPL\x00depends=virtio,virtio-ring\x00name=x\x00": {"virtio", "virtio_ring"},
		"license=GPL\x00depends=\x00":                             nil,
		"license=GPL\x00":                                         nil,
	} {
		got, err := moduleDepends(makeModule(info))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := moduleDepends([]byte("no module"))
	require.Error(t, err)
	_, err = moduleDepends(bytes.ReplaceAll(makeModule("x"), []byte(".modinfo"), []byte(".modimfo")))
	require.ErrorContains(t, err, "no .modinfo")
}

func TestModuleName(t *testing.T) {
	for file, want := range map[string]string{
		"virtio-gpu.ko": "virtio_gpu", "drm.ko.xz": "drm", "drm.ko.zst": "drm", "drm.ko.lz4": "", "modules.dep": "", "ko": "",
	} {
		require.Equal(t, want, moduleName(file), file)
	}
}

// TestModuleOrder checks on any set of dependencies without a cycle that each module comes once, after
// what it needs, and that nothing else comes.
func TestModuleOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 12
		name := func(i int) string { return string(rune('a' + i)) }
		needs := map[string][]string{}
		for i := 1; i < n; i++ {
			for _, j := range rapid.SliceOfDistinct(rapid.IntRange(0, i-1), rapid.ID[int]).Draw(t, "needs") {
				needs[name(i)] = append(needs[name(i)], name(j))
			}
		}
		wanted := rapid.SliceOf(rapid.Map(rapid.IntRange(0, n-1), name)).Draw(t, "wanted")
		order, err := moduleOrder(wanted, func(m string) ([]string, error) { return needs[m], nil })
		require.NoError(t, err)
		required := map[string]bool{}
		var mark func(string)
		mark = func(m string) {
			required[m] = true
			for _, d := range needs[m] {
				mark(d)
			}
		}
		for _, w := range wanted {
			mark(w)
		}
		require.Len(t, order, len(required))
		for i, m := range order {
			require.True(t, required[m])
			for _, d := range needs[m] {
				at := slices.Index(order, d)
				require.GreaterOrEqual(t, at, 0)
				require.Less(t, at, i, "%s comes before %s, which it needs", m, d)
			}
		}
	})
}

func TestModuleOrderErrors(t *testing.T) {
	needs := map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}}
	_, err := moduleOrder([]string{"a"}, func(m string) ([]string, error) { return needs[m], nil })
	require.ErrorContains(t, err, "a → b → c → a")
	missing := errors.New("missing")
	_, err = moduleOrder([]string{"a"}, func(m string) ([]string, error) {
		if m == "c" {
			return nil, missing
		}
		return needs[m], nil
	})
	require.ErrorIs(t, err, missing)
	require.ErrorContains(t, err, "a → b → c")
}

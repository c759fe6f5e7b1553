package softgpu

import (
	gocontext "context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

func loadOf(t testing.TB, c *context, file, source string) *module {
	m, err := c.LoadModule(gocontext.Background(), file, []byte(source), nil)
	require.NoError(t, err)
	return m.(*module)
}

// Modules of the same source share their program, in all contexts of a device and after the first is closed. Others,
// and those with variables, do not.
func TestProgramsAreKept(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 16 << 20})
	one, _ := testContext(t, d)
	other, _ := testContext(t, d)
	first := loadOf(t, one, "a.ptx", adds)
	require.Same(t, first.prog, loadOf(t, other, "a.ptx", adds).prog)
	require.NoError(t, one.Close())
	require.Same(t, first.prog, loadOf(t, other, "a.ptx", adds).prog)
	require.NotSame(t, first.prog, loadOf(t, other, "b.ptx", adds).prog, "another name, which messages have")
	require.NotSame(t, first.prog, loadOf(t, other, "a.ptx", adds+"// more").prog)
	variables := adds + ".visible .global .u32 v = 7;\n"
	require.NotSame(t, loadOf(t, other, "v.ptx", variables).prog, loadOf(t, other, "v.ptx", variables).prog)
	bad := func() error {
		_, err := other.LoadModule(gocontext.Background(), "a.ptx", []byte(adds+"nonsense"), nil)
		return err
	}
	require.Error(t, bad())
	require.Error(t, bad(), "it is refused again")
	elsewhere, _ := testContext(t, testDevice(t, Config{VRAMBytes: 16 << 20}))
	require.NotSame(t, first.prog, loadOf(t, elsewhere, "a.ptx", adds).prog)
}

// What a device keeps has bounds; the programs that were used last stay.
func TestKeptProgramsAreFew(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 16 << 20})
	c, _ := testContext(t, d)
	first := loadOf(t, c, "0.ptx", adds)
	for n := range 3 * keptPrograms {
		require.NoError(t, loadOf(t, c, fmt.Sprintf("%d.ptx", n+1), adds).Close())
		require.Same(t, first.prog, loadOf(t, c, "0.ptx", adds).prog)
	}
	require.Len(t, d.programs.kept, keptPrograms)
	require.Nil(t, d.programs.find(programKey{file: "1.ptx"}))

	large := ""
	for n := range 400 {
		large += fmt.Sprintf(".visible .entry k%d(.param .u64 p) { .reg .u32 %%r<3>; add.u32 %%r1, %%r2, %d; ret; }\n", n, n)
	}
	for n := range 20 {
		require.NoError(t, loadOf(t, c, fmt.Sprintf("large%d.ptx", n), ".version 6.0\n.target sm_50\n.address_size 64\n"+large).Close())
		require.LessOrEqual(t, d.programs.bytes, uint64(keptProgramBytes))
	}
	sum := uint64(0)
	for _, k := range d.programs.kept {
		sum += k.bytes
	}
	require.Equal(t, sum, d.programs.bytes)
	require.Less(t, len(d.programs.kept), 20)
}

// Contexts that share a program run it at the same time, each on its own memory.
func TestKeptProgramsAtOnce(t *testing.T) {
	d := testDevice(t, Config{VRAMBytes: 32 << 20})
	var all sync.WaitGroup
	words := make([]uint32, 4)
	for n := range words {
		all.Go(func() {
			c, ch := testContext(t, d)
			m, err := c.NewVRAM(4096)
			require.NoError(t, err)
			require.NoError(t, c.Map(vramBase, m, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
			for range 50 {
				l := launchOf(t, c, adds, "add")
				l.Params = binary.LittleEndian.AppendUint64(nil, vramBase)
				for range n + 1 {
					require.NoError(t, (<-submit(t, ch, l)).Err)
				}
			}
			words[n] = binary.LittleEndian.Uint32(d.vram.Bytes(m.(*memory).extents[0].addr, 4))
		})
	}
	all.Wait()
	require.Equal(t, []uint32{50, 100, 150, 200}, words)
	require.Len(t, d.programs.kept, 1)
}

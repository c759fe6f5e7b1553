package heap

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	base = 0xf0 << 32
	size = 1 << 20
)

func TestClasses(t *testing.T) {
	for n := uint64(0); n <= maxSmall; n++ {
		c := classOf(n)
		require.GreaterOrEqual(t, slabs[c].bytes, n)
		require.Zero(t, slabs[c].bytes%Align)
		if c > 0 {
			require.Less(t, slabs[c-1].bytes, max(n, 1), "%d fits into a smaller class", n)
		}
	}
	require.EqualValues(t, maxSmall, slabs[classes-1].bytes)
	for c, s := range slabs {
		waste := uint64(s.pages)*PageBytes - s.bytes*uint64(64-leadingZeros(s.all))
		require.LessOrEqual(t, 8*waste, uint64(s.pages)*PageBytes, "class %d", c)
	}
}

func leadingZeros(x uint64) (n int) {
	for ; n < 64 && x>>63 == 0; n++ {
		x <<= 1
	}
	return n
}

// model is what a heap must do: allocations by address.
type model map[uint64]uint64

// TestModel compares a heap with a model of it: what it returns is in the range, aligned, and
// overlaps nothing; Free takes exactly what Malloc returned; states restore to the same heap.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, m := New(base, size), model{}
		var order []uint64
		t.Repeat(map[string]func(*rapid.T){
			"malloc": func(t *rapid.T) {
				n := rapid.OneOf(rapid.Uint64Range(0, 300), rapid.Uint64Range(0, 20000), rapid.Uint64Range(0, size), rapid.Uint64()).Draw(t, "n")
				if addr := h.Malloc(n); addr != 0 {
					m.add(t, addr, max(n, 1))
					order = append(order, addr)
				}
			},
			"free": func(t *rapid.T) {
				if len(order) == 0 {
					return
				}
				i := rapid.IntRange(0, len(order)-1).Draw(t, "which")
				require.True(t, h.Free(order[i]))
				require.False(t, h.Free(order[i]), "twice")
				delete(m, order[i])
				order = append(order[:i], order[i+1:]...)
			},
			"free what is none": func(t *rapid.T) {
				addr := rapid.OneOf(rapid.Uint64Range(base-64, base+size+64), rapid.Uint64()).Draw(t, "addr")
				if _, ok := m[addr]; !ok {
					require.False(t, h.Free(addr))
				}
			},
			"restore": func(t *rapid.T) {
				state := h.State()
				again, err := Restore(base, size, state)
				require.NoError(t, err)
				require.Equal(t, state, again.State())
				h = again
			},
			"": func(t *rapid.T) { require.Equal(t, len(m), h.Live()) },
		})
		for _, addr := range order {
			require.True(t, h.Free(addr))
		}
		require.Empty(t, h.State(), "all pages are free again")
		require.NotZero(t, h.Malloc(size), "in one piece")
	})
}

// TestFind compares the places that are found with those of a search that looks at each page.
func TestFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1500).Draw(t, "pages")
		r, free := newRuns(n), make([]bool, n)
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			first := rapid.IntRange(0, n-1).Draw(t, "first")
			count := rapid.IntRange(1, n-first).Draw(t, "count")
			value := rapid.Bool().Draw(t, "free")
			r.set(first, count, value)
			for i := range count {
				free[first+i] = value
			}
			want := rapid.IntRange(1, n).Draw(t, "want")
			at, row := -1, 0
			for i := 0; i < n && at < 0; i++ {
				if row++; !free[i] {
					row = 0
				} else if row == want {
					at = i + 1 - want
				}
				require.Equal(t, free[i], r.has(i))
			}
			got, ok := r.find(want)
			require.Equal(t, at >= 0, ok)
			if ok {
				require.Equal(t, at, got)
			}
		}
	})
}

// BenchmarkFragmented looks for pages in the largest heap, every other page of which is taken.
func BenchmarkFragmented(b *testing.B) {
	h := New(base, MaxBytes)
	for page := 0; page < MaxBytes/PageBytes; page += 2 {
		h.claim(page, 1, 7)
	}
	for b.Loop() {
		if h.Malloc(maxSmall+1) != 0 {
			b.Fatal("there is room")
		}
	}
}

// BenchmarkSlabs allocates and frees as many small places as fill some slabs.
func BenchmarkSlabs(b *testing.B) {
	h := New(base, 64<<20)
	var addrs [1024]uint64
	for b.Loop() {
		for i := range addrs {
			addrs[i] = h.Malloc(128)
		}
		for _, addr := range addrs {
			h.Free(addr)
		}
	}
}

// add enters an allocation and checks it.
func (m model) add(t require.TestingT, addr, n uint64) {
	require.Zero(t, addr%Align)
	require.GreaterOrEqual(t, addr, uint64(base))
	require.LessOrEqual(t, addr-base+n, uint64(size))
	for a, k := range m {
		require.True(t, addr+n <= a || a+k <= addr, "%#x+%d overlaps %#x+%d", addr, n, a, k)
	}
	m[addr] = n
}

func TestExhausted(t *testing.T) {
	for _, n := range []uint64{1, 16, 48, 100, 1024, 3000, 8192, 8193, 100000} {
		h := New(base, size)
		count := uint64(0)
		var last uint64
		for addr := h.Malloc(n); addr != 0; addr = h.Malloc(n) {
			count, last = count+1, addr
		}
		require.GreaterOrEqual(t, count*max(n, Align), uint64(size)*3/4, "%d bytes each", n)
		require.True(t, h.Free(last))
		require.NotZero(t, h.Malloc(n))
		require.Zero(t, h.Malloc(n))
	}
	h := New(base, size)
	require.Zero(t, h.Malloc(size+1))
	require.Zero(t, h.Malloc(^uint64(0)))
	require.NotZero(t, h.Malloc(size))
	require.Zero(t, h.Malloc(1))
}

// TestNone checks that a kernel without a heap has none.
func TestNone(t *testing.T) {
	var h *Heap
	require.Zero(t, h.Malloc(1))
	require.False(t, h.Free(base))
}

// TestWorkers lets goroutines allocate, write and free at once.
func TestWorkers(t *testing.T) {
	h := New(base, size)
	memory := make([]byte, size)
	var wg sync.WaitGroup
	for id := range byte(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(id), 1))
			held := map[uint64]uint64{}
			for range 5000 {
				if n := r.Uint64N(3000) + 1; len(held) < 30 {
					if addr := h.Malloc(n); addr != 0 {
						held[addr] = n
						for i := range n {
							memory[addr-base+i] = id
						}
					}
					continue
				}
				for addr, n := range held {
					for i := range n {
						if memory[addr-base+i] != id {
							t.Errorf("another worker has got %#x, too", addr)
						}
					}
					if !h.Free(addr) {
						t.Errorf("%#x is not allocated", addr)
					}
					delete(held, addr)
				}
			}
			for addr := range held {
				h.Free(addr)
			}
		})
	}
	wg.Wait()
	require.Zero(t, h.Live())
}

// FuzzRestore feeds Restore anything. What it accepts must be a heap that works.
func FuzzRestore(f *testing.F) {
	h := New(base, size)
	for _, n := range []uint64{1, 100, 100, 5000, 20000} {
		h.Malloc(n)
	}
	f.Add([]byte{})
	f.Add(h.State())
	f.Fuzz(func(t *testing.T, state []byte) {
		h, err := Restore(base, size, state)
		if err != nil {
			return
		}
		require.Equal(t, len(state), len(h.State()))
		live := h.Live()
		var got []uint64
		for n := uint64(1); n < size; n *= 3 {
			if addr := h.Malloc(n); addr != 0 {
				got = append(got, addr)
			}
		}
		for _, addr := range got {
			require.True(t, h.Free(addr))
		}
		require.Equal(t, live, h.Live())
		require.Equal(t, state, append([]byte{}, h.State()...))
	})
}

package codemem

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is mapped holds the code, can be executed, and cannot be written.
func TestMap(t *testing.T) {
	code := bytes.Repeat([]byte{0xc3}, 5000)
	m, err := Map(code)
	require.NoError(t, err)
	require.Equal(t, code, m)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	at := strings.TrimPrefix(fmt.Sprintf("%p-", &m[0]), "0x")
	found := ""
	for line := range strings.Lines(string(maps)) {
		if strings.HasPrefix(line, at) {
			found = strings.Fields(line)[1]
		}
	}
	require.Equal(t, "r-xp", found, "at %s", at)
	require.NoError(t, Unmap(m))

	_, err = Map(nil)
	require.Error(t, err)
	_, err = Map(make([]byte, Bytes+1))
	require.ErrorContains(t, err, "are in use")
}

// Code keeps its bytes while other code comes and goes, and all addresses are free in
// the end.
func TestMapConcurrently(t *testing.T) {
	require.NoError(t, Reserve())
	before := slices.Clone(space.free)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			var held [][]byte
			for range 200 {
				if len(held) > 10 {
					j := r.IntN(len(held))
					if bytes.ContainsFunc(held[j], func(b rune) bool { return b != rune(i) }) {
						t.Error("the bytes of others")
					}
					if err := Unmap(held[j]); err != nil {
						t.Error(err)
					}
					held = slices.Delete(held, j, j+1)
				}
				m, err := Map(bytes.Repeat([]byte{byte(i)}, 1+r.IntN(20000)))
				if err != nil {
					t.Error(err)
					return
				}
				held = append(held, m)
			}
			for _, m := range held {
				if err := Unmap(m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, before, space.free)
}

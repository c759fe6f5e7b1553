package nvidia

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzAccount has two workers get and free objects in any order, under small numbers so that they meet, and
// compares with sums over a plain list. What the backend reads is what there is, and no order leads beyond the limit.
func FuzzAccount(f *testing.F) {
	f.Add([]byte{0, 0x11, 1, 0, 0x12, 9, 4, 0x11, 0, 0, 0x13, 255, 5, 0x13, 0})
	f.Add([]byte{2, 0x11, 200, 1, 0x11, 100, 6, 0x10, 0, 1, 0x22, 1, 5, 0x20, 0, 3, 0x22, 9})
	f.Fuzz(func(t *testing.T, ops []byte) {
		const limit, unit = 300 * accountPage, accountPage
		type object struct {
			client, parent, handle uint32
			bytes                  uint64
		}
		of := &books{limit: limit}
		var accounts [2]*account
		var model [2][]object
		var started [2]uint64 // bytes that came while workers started
		for i := range accounts {
			a, file, err := of.newAccount()
			require.NoError(t, err)
			require.NoError(t, file.Close())
			accounts[i] = a
		}
		sum := func(list []object) (n uint64) {
			for _, o := range list {
				n += o.bytes
			}
			return n
		}
		drop := func(list []object, which func(object) bool) (rest []object) {
			for _, o := range list {
				if !which(o) {
					rest = append(rest, o)
				}
			}
			return rest
		}
		for ; len(ops) >= 3; ops = ops[3:] {
			i, starts := int(ops[0]&1), ops[0]&2 != 0
			a := accounts[i]
			client, handle, size := uint32(ops[1]>>4), uint32(ops[1]&15), uint64(ops[2])*unit/2
			name := objectName{client: client, handle: handle}
			if ops[0]&4 != 0 { // an object, a parent or a client is freed
				a.freed(name)
				model[i] = drop(model[i], func(o object) bool {
					return o.client == client && (o.handle == handle || o.parent == handle || client == handle)
				})
			} else {
				parent := uint32(ops[2] & 15)
				all := sum(model[0]) + sum(model[1])
				got := a.reserve(size, !starts)
				require.Equal(t, starts || size+all <= limit, got)
				if got {
					a.made(allocation(client, parent, handle, classMemory), size)
					model[i] = append(drop(model[i], func(o object) bool { return o.client == client && o.handle == handle }),
						object{client: client, parent: parent, handle: handle, bytes: size})
				}
				if starts {
					started[i] += size
				}
			}
			require.Equal(t, (sum(model[i])+unit-1)/unit*unit, accountOf(a.page))
			require.Len(t, a.objects, len(model[i]))
			require.LessOrEqual(t, of.used, limit+started[0]+started[1])
		}
		for _, a := range accounts {
			a.close()
			require.Empty(t, a.parents)
		}
		require.Zero(t, of.used)
	})
}

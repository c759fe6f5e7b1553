package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// Each two devices of a guest are joined by two sockets, of which each backend finds its own by the places.
func TestLinkedPeers(t *testing.T) {
	var d deviceFlags
	require.NoError(t, deviceList{&d}.Set("cuda:0,2,1"))
	all := d.each()
	require.NoError(t, linkPeers(all))
	backends := make([]peerFlags, len(all))
	for i := range all {
		c := &cobra.Command{}
		backends[i].add(c)
		require.NoError(t, c.ParseFlags(all[i].peers.args()))
		require.NoError(t, backends[i].take(all[i].peers.files))
	}
	for i := range backends {
		for j := range backends {
			for kind, of := range map[string]func(*peerFlags) map[int]*os.File{
				"keepers": func(p *peerFlags) map[int]*os.File { return p.keepers }, "lenders": func(p *peerFlags) map[int]*os.File { return p.lenders },
			} {
				one, other := of(&backends[i])[j], of(&backends[j])[i]
				if i == j {
					require.Nil(t, one)
					continue
				}
				_, err := one.WriteString(kind)
				require.NoError(t, err)
				b := make([]byte, 10)
				n, err := other.Read(b)
				require.NoError(t, err)
				require.Equal(t, kind, string(b[:n]))
			}
		}
	}
	list := backends[1].ofCUDA()
	require.Len(t, list, 2)
	require.Equal(t, []int{0, 0, 2, 1}, []int{list[0].Place, list[0].Number, list[1].Place, list[1].Number})
	require.Empty(t, backends[1].ofCUDA(), "they are given once")
	require.NoError(t, closePeers(all))
}

// One device alone has no peers, nor have devices of which each backend has its own memory. Flags without sockets are refused.
func TestUnlinkedPeers(t *testing.T) {
	for _, list := range []string{"cuda:1", "softgpu:0,1"} {
		var d deviceFlags
		require.NoError(t, deviceList{&d}.Set(list))
		all := d.each()
		require.NoError(t, linkPeers(all))
		for i := range all {
			require.Empty(t, all[i].peers.args())
			require.NoError(t, all[i].peers.take(nil))
			require.Empty(t, all[i].peers.ofCUDA())
			require.NoError(t, all[i].peers.lend(nil))
			all[i].peers.close()
		}
	}
	for _, args := range []string{"--peers 0,1", "--peers 0,1 --peer-place 2", "--peer-place 1"} {
		var p peerFlags
		c := &cobra.Command{}
		p.add(c)
		require.NoError(t, c.ParseFlags(strings.Fields(args)))
		require.ErrorContains(t, p.take(nil), "pvdrm run and pvdrm up set it")
	}
}

package capi

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHasEntry(t *testing.T) {
	const text = ".version 8.0\n.target sm_70\n.visible .entry add(\n\t.param .u64 p\n)\n{ ret; }\n" +
		".func sub() { ret; }\n// .entry old()\n.entry /* new */ mul (.param .u32 n) { ret; }\n.entry"
	for name, want := range map[string]bool{"add": true, "mul": true, "sub": false, "old": false, "new": false, "ad": false, "": false} {
		require.Equal(t, want, slices.Contains(entries([]byte(text)), name), name)
	}
}

func TestRequiredBlocks(t *testing.T) {
	require.Nil(t, requiredBlocks([]byte(".entry add() { ret; }")))
	const text = ".file 1 \"/a/b.cu\"\n.entry any() { ret; }\n.visible .entry one(\n.param .u64 p)\n.reqntid 32\n{ ret; }\n.entry two() .reqntid 8,4{ ret; }\n" +
		".entry all() .maxntid 9, 9, 9 .reqntid 0x8, 4, 2 .minnctapersm 5 { ret; }\n.entry odd() .reqntid"
	require.Equal(t, map[string][3]uint32{"one": {32, 1, 1}, "two": {8, 4, 1}, "all": {8, 4, 2}, "odd": {1, 1, 1}}, requiredBlocks([]byte(text)))
}

func TestPTXTarget(t *testing.T) {
	for text, want := range map[string]uint32{
		".version 7.8\n.target sm_52\n.address_size 64\n":                                     52,
		"//\n// .target sm_10\n//\n.version 8.0 /* .target sm_20 */\n.target sm_90a, debug\n": 90,
		".version 8.0 .target sm_100f,texmode_independent":                                    100,
		".version 8.0\n.target compute_90a\n":                                                 90,
		".version 8.0\n.target\tsm_70//x":                                                     70,
		".version 8.0\n":                                                                      0,
		"":                                                                                    0,
		".target":                                                                             0,
		".target map_f64_to_f32":                                                              0,
		".target sm_99999999999999999999":                                                     0,
		"/* unterminated .target sm_70":                                                       0,
		"/":                                                                                   0,
	} {
		require.Equal(t, want, ptxTarget([]byte(text)), text)
	}
}

func TestClusterRules(t *testing.T) {
	require.Nil(t, clusterRules([]byte(".entry add() { ret; }")))
	const text = ".entry any() { ret; }\n.visible .entry one(\n.param .u64 p)\n.reqntid 32 .reqnctapercluster 8\n{ ret; }\n.entry two() .reqnctapercluster 2, 0x4{ ret; }\n" +
		".entry all() .explicitcluster .maxclusterrank 16 { ret; }\n.entry none() .maxntid 9 { mov.u32 %r1, %cluster_ctarank; }\n.entry odd() .reqnctapercluster"
	require.Equal(t, map[string]clusterRule{"one": {required: [3]uint32{8, 1, 1}}, "two": {required: [3]uint32{2, 4, 1}},
		"all": {explicit: true, most: 16}}, clusterRules([]byte(text)))
}

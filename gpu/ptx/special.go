package ptx

import (
	"fmt"
	"strconv"
)

// Special is a special register (section 10).
type Special uint8

// Special registers.
const (
	SpecialNone Special = iota
	TidX
	TidY
	TidZ
	NTidX
	NTidY
	NTidZ
	LaneID
	WarpID
	NWarpID
	CTAIDX
	CTAIDY
	CTAIDZ
	NCTAIDX
	NCTAIDY
	NCTAIDZ
	SMID
	NSMID
	GridID // 64 bits
	LaneMaskEQ
	LaneMaskLE
	LaneMaskLT
	LaneMaskGE
	LaneMaskGT
	Clock
	ClockHi
	Clock64     // 64 bits
	GlobalTimer // 64 bits
	GlobalTimerLo
	GlobalTimerHi
	TotalSmemSize
	AggrSmemSize
	DynamicSmemSize
	PM0 // performance counters %pm0 … %pm7
	PM1
	PM2
	PM3
	PM4
	PM5
	PM6
	PM7
	PM0x64 // %pm0_64 … %pm7_64: 64 bits
	PM1x64
	PM2x64
	PM3x64
	PM4x64
	PM5x64
	PM6x64
	PM7x64
	EnvReg0  // %envreg0 … %envreg31
	EnvReg31 = EnvReg0 + 31
)

// Special registers that newer versions of PTX added.
const (
	ClusterIDX Special = EnvReg31 + 1 + iota
	ClusterIDY
	ClusterIDZ
	NClusterIDX
	NClusterIDY
	NClusterIDZ
	ClusterCTAIDX
	ClusterCTAIDY
	ClusterCTAIDZ
	ClusterNCTAIDX
	ClusterNCTAIDY
	ClusterNCTAIDZ
	ClusterCTARank
	ClusterNCTARank
	IsExplicitCluster // a predicate
	ReservedSmemBegin
	ReservedSmemEnd
	ReservedSmemCap
	ReservedSmem0
	ReservedSmem1
	CurrentGraphExec // 64 bits
	numSpecials
)

// Type returns the type of the register: U32, U64 or, once, Pred.
func (s Special) Type() Type {
	switch {
	case s == IsExplicitCluster:
		return Pred
	case s == CurrentGraphExec || s == GridID || s == Clock64 || s == GlobalTimer || s >= PM0x64 && s <= PM7x64:
		return U64
	}
	return U32
}

// fits reports whether mov or, with relaxed, cvt may read the register as t.
// Old versions had 16-bit block coordinates and a 32-bit %gridid.
func (s Special) fits(t Type, relaxed bool) bool {
	if s == SpecialNone || s >= numSpecials {
		return false
	}
	coordinate := s <= NTidZ || s >= CTAIDX && s <= NCTAIDZ
	return compatible(t, s.Type(), relaxed) || coordinate && compatible(t, U16, false) || s == GridID && compatible(t, U32, false)
}

var specialNames = makeSpecialNames()

func makeSpecialNames() (n [numSpecials]string) {
	for s, name := range map[Special]string{TidX: "%tid", NTidX: "%ntid", CTAIDX: "%ctaid", NCTAIDX: "%nctaid",
		ClusterIDX: "%clusterid", NClusterIDX: "%nclusterid", ClusterCTAIDX: "%cluster_ctaid", ClusterNCTAIDX: "%cluster_nctaid"} {
		n[s], n[s+1], n[s+2] = name+".x", name+".y", name+".z"
	}
	for s, name := range map[Special]string{
		LaneID: "%laneid", WarpID: "%warpid", NWarpID: "%nwarpid", SMID: "%smid", NSMID: "%nsmid", GridID: "%gridid",
		LaneMaskEQ: "%lanemask_eq", LaneMaskLE: "%lanemask_le", LaneMaskLT: "%lanemask_lt",
		LaneMaskGE: "%lanemask_ge", LaneMaskGT: "%lanemask_gt",
		Clock: "%clock", ClockHi: "%clock_hi", Clock64: "%clock64",
		GlobalTimer: "%globaltimer", GlobalTimerLo: "%globaltimer_lo", GlobalTimerHi: "%globaltimer_hi",
		TotalSmemSize: "%total_smem_size", AggrSmemSize: "%aggr_smem_size", DynamicSmemSize: "%dynamic_smem_size",
		ClusterCTARank: "%cluster_ctarank", ClusterNCTARank: "%cluster_nctarank", IsExplicitCluster: "%is_explicit_cluster",
		ReservedSmemBegin: "%reserved_smem_offset_begin", ReservedSmemEnd: "%reserved_smem_offset_end",
		ReservedSmemCap: "%reserved_smem_offset_cap", ReservedSmem0: "%reserved_smem_offset_0",
		ReservedSmem1: "%reserved_smem_offset_1", CurrentGraphExec: "%current_graph_exec",
	} {
		n[s] = name
	}
	for i := range Special(8) {
		n[PM0+i] = "%pm" + strconv.Itoa(int(i))
		n[PM0x64+i] = n[PM0+i] + "_64"
	}
	for i := range Special(32) {
		n[EnvReg0+i] = "%envreg" + strconv.Itoa(int(i))
	}
	return n
}

// Specials lists all special registers.
func Specials() []Special { return span(SpecialNone+1, numSpecials-1) }

// String returns the name as written, such as "%tid.x".
func (s Special) String() string {
	if s >= numSpecials {
		return fmt.Sprintf("special register %d", uint8(s))
	}
	return specialNames[s]
}

var specialByName = makeSpecialByName()

func makeSpecialByName() map[string]Special {
	m := make(map[string]Special, numSpecials)
	for s, name := range specialNames {
		if name != "" {
			m[name] = Special(s)
		}
	}
	return m
}

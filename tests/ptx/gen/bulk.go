package main

import (
	"fmt"
	"strings"
)

// bulk is a fixture in which one thread makes bulk copies between the buffers src and mem and shared memory,
// all of which, and whether an mbarrier's phase has ended, is handed out.
type bulk struct {
	name    string
	column  string   // of src and mem
	body    []string // with %src, %mem, %box (1 KiB of src's second half), %bar and %map, a tensor map over src
	bytes   int      // that the mbarrier expects; 0: it is not waited for
	version string   // "": 8.4
	tensor  string   // the line of the map
	over    string   // the map's buffer; "": src
	cluster bool     // copies between blocks need a cluster, were it of one block
	warp    bool     // all threads of the warp run the body
}

// bulkBytes are the bytes of src and mem.
const bulkBytes = 2048

func (f *bulk) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	rows := bulkBytes / (bitsOf(f.column) / 8)
	line("//! in src %d %s\n//! inout mem %d %s\n//! out out 512 u32\n//! out done 2 u32", rows, f.column, rows, f.column)
	args, params := "", ""
	if f.tensor != "" {
		over := f.over
		if over == "" {
			over = "src"
		}
		line("//! tensor map %s %s", over, f.tensor)
		args, params = "map ", ".param .align 64 .b8 map[128], "
	}
	line("//! run k grid 1 block 32 args %ssrc mem out done", args)
	version := f.version
	if version == "" {
		version = "8.4"
	}
	line(".version %s\n.target sm_90a\n.address_size 64\n", version)
	line(".shared .align 1024 .b8 box[2048];\n.shared .align 8 .b64 bar;\n.global .align 128 .b8 made[128];")
	line(".visible .entry k(%s.param .u64 src, .param .u64 mem, .param .u64 out, .param .u64 done)", params)
	if f.cluster {
		line(".reqnctapercluster 1, 1, 1")
	}
	line("{\n\t.reg .pred %%p, %%q;\n\t.reg .b16 %%h;\n\t.reg .b32 %%c<5>, %%box, %%bar, %%n, %%x, %%lane;\n\t.reg .b64 %%map, %%src, %%mem, %%out, %%done, %%l;")
	line("\tld.param.u64 %%src, [src];\n\tld.param.u64 %%mem, [mem];\n\tld.param.u64 %%out, [out];\n\tld.param.u64 %%done, [done];")
	if f.tensor != "" {
		line("\tmov.b64 %%map, map;\n\tcvta.param.u64 %%map, %%map;")
	}
	line("\tmov.u32 %%box, box;\n\tmov.u32 %%bar, bar;\n\tmov.u32 %%lane, %%tid.x;\n\tmov.u32 %%c0, 0;\n\tmov.u32 %%c1, 1;")
	line("\tshl.b32 %%n, %%lane, 2;\nfill:\n\txor.b32 %%x, %%n, 1024;\n\tcvt.u64.u32 %%l, %%x;\n\tadd.u64 %%l, %%l, %%src;\n\tld.global.u32 %%c4, [%%l];\n\tadd.u32 %%x, %%box, %%n;\n\tst.shared.u32 [%%x], %%c4;\n\tadd.u32 %%n, %%n, 128;\n\tsetp.lt.u32 %%p, %%n, 2048;\n\t@%%p bra fill;")
	line("\tsetp.eq.u32 %%q, %%lane, 0;\n\t@%%q mbarrier.init.shared::cta.b64 [%%bar], 1;\n\tfence.proxy.async;\n\tbar.sync 0;\n\tmov.u32 %%n, 0;")
	if !f.warp {
		line("\t@!%%q bra wait;")
	}
	if f.bytes > 0 {
		line("\t@%%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%bar], %d;", f.bytes)
	}
	for _, l := range f.body {
		line("\t%s;", l)
	}
	line("wait:")
	if f.bytes > 0 {
		line("again:\n\tmbarrier.try_wait.parity.shared::cta.b64 %%p, [%%bar], 0;\n\t@%%p bra there;\n\tadd.u32 %%n, %%n, 1;\n\tsetp.lt.u32 %%p, %%n, 100;\n\t@%%p bra again;\nthere:")
	}
	line("\tsetp.lt.u32 %%p, %%n, 100;\n\tselp.u32 %%x, 1, 0, %%p;\n\t@%%q st.global.u32 [%%done], %%x;\n\tbar.sync 0;")
	line("\tshl.b32 %%n, %%lane, 2;\ncopy:\n\tadd.u32 %%x, %%box, %%n;\n\tld.shared.u32 %%x, [%%x];\n\tcvt.u64.u32 %%l, %%n;\n\tadd.u64 %%l, %%l, %%out;\n\tst.global.u32 [%%l], %%x;\n\tadd.u32 %%n, %%n, 128;\n\tsetp.lt.u32 %%p, %%n, 2048;\n\t@%%p bra copy;")
	line("\tret;\n}")
	return b.String()
}

// finish waits for the group of a thread.
var finish = []string{"cp.async.bulk.commit_group", "cp.async.bulk.wait_group 0"}

// bulkCopies are copies and reductions of bytes.
func bulkCopies() (list []bulk) {
	const load, peer = ".mbarrier::complete_tx::bytes", "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
	u32 := "u32:rand"
	list = append(list,
		bulk{name: "bulk.load", column: u32, bytes: 640, body: []string{"cp.async.bulk.shared::cluster.global" + load + " [%box+64], [%src+32], 640, [%bar]"}},
		bulk{name: "bulk.load.cta", column: u32, bytes: 640, version: "8.6", body: []string{"cp.async.bulk.shared::cta.global" + load + " [%box+64], [%src+32], 640, [%bar]"}},
		bulk{name: "bulk.load.size", column: u32, bytes: 32, body: []string{"mov.u32 %x, 0x10002f", "cp.async.bulk.shared::cluster.global" + load + " [%box], [%src], %x, [%bar]"}},
		bulk{name: "bulk.load.none", column: u32, bytes: 16, body: []string{"mov.u32 %x, 15", "cp.async.bulk.shared::cluster.global" + load + " [%box], [%src], %x, [%bar]", "mov.u32 %x, 16",
			"cp.async.bulk.shared::cluster.global" + load + " [%box], [%src], %x, [%bar]"}},
		bulk{name: "bulk.load.multicast", column: u32, bytes: 640, cluster: true, body: []string{"mov.u16 %h, 1",
			"cp.async.bulk.shared::cluster.global" + load + ".multicast::cluster [%box+64], [%src+32], 640, [%bar], %h"}},
		bulk{name: "bulk.peer", column: u32, bytes: 256, cluster: true, body: []string{peer + " [%box+512], [%box+16], 256, [%bar]"}},
		bulk{name: "bulk.store", column: u32, body: append([]string{"cp.async.bulk.global.shared::cta.bulk_group [%mem+48], [%box+64], 640"}, finish...)},
		bulk{name: "bulk.store.read", column: u32, body: []string{"cp.async.bulk.global.shared::cta.bulk_group [%mem], [%box], 64", "cp.async.bulk.commit_group",
			"cp.async.bulk.wait_group.read 0"}},
		bulk{name: "bulk.prefetch", column: u32, body: []string{"cp.async.bulk.prefetch.L2.global [%src], 512"}},
		bulk{name: "mbarrier.complete", column: u32, bytes: 64, body: []string{"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 64"}},
	)
	for _, r := range []struct{ op, mem, box string }{
		{op: "add", mem: "u32 s32 u64 f32 f64 noftz.f16 noftz.bf16", box: "u32 s32 u64"}, {op: "min", mem: "u32 s32 u64 s64 f16 bf16", box: "u32 s32"},
		{op: "max", mem: "u32 s32 u64 s64 f16 bf16", box: "u32 s32"}, {op: "inc", mem: "u32", box: "u32"}, {op: "dec", mem: "u32", box: "u32"},
		{op: "and", mem: "b32 b64", box: "b32"}, {op: "or", mem: "b32 b64", box: "b32"}, {op: "xor", mem: "b32 b64", box: "b32"},
	} {
		for n, types := range []string{r.mem, r.box} {
			for _, t := range strings.Fields(types) {
				column := strings.Replace(strings.TrimPrefix(t, "noftz."), "b32", "u32", 1)
				if column = strings.Replace(column, "b64", "u64", 1); column != "u32" && column != "u64" {
					column += ":edge"
				} else {
					column += ":rand"
				}
				column = strings.Replace(column, "s32:edge", "s32:rand", 1)
				column = strings.Replace(column, "s64:edge", "s64:rand", 1)
				f := bulk{name: "bulk." + r.op + "." + t, column: column}
				f.body = append([]string{"cp.reduce.async.bulk.global.shared::cta.bulk_group." + r.op + "." + t + " [%mem+16], [%box+64], 1024"}, finish...)
				if n == 1 {
					f.name, f.bytes, f.cluster = "bulk.peer."+r.op+"."+t, 512, true
					f.body = []string{"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes." + r.op + "." + t + " [%box+1024], [%box+16], 512, [%bar]"}
				}
				list = append(list, f)
			}
		}
	}
	return append(list, bulkBoxes()...)
}

// bulkBoxes are the forms of copies of boxes that the fixtures of tiles do not have, and what goes with maps.
func bulkBoxes() []bulk {
	const u32, flat, solid = "u32:rand", "u32 dim=16,16 stride=64 box=8,4", "u32 dim=8,4,4 stride=32,128 lower=0 upper=0 channels=4 pixels=6"
	const tx = ".mbarrier::complete_tx::bytes"
	release := "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%l], [%box], 128"
	return []bulk{
		{name: "tile.cta", column: u32, tensor: flat, bytes: 128, version: "8.6", body: []string{"cp.async.bulk.tensor.2d.shared::cta.global.tile" + tx + " [%box], [%map, {%c0, %c1}], [%bar]"}},
		{name: "tile.multicast", column: u32, tensor: flat, bytes: 128, cluster: true, body: []string{"mov.u16 %h, 1",
			"cp.async.bulk.tensor.2d.shared::cluster.global.tile" + tx + ".multicast::cluster [%box], [%map, {%c0, %c1}], [%bar], %h"}},
		{name: "tile.prefetch", column: u32, tensor: flat, body: []string{"cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%map, {%c0, %c1}]"}},
		{name: "pixels.multicast", column: u32, tensor: solid, bytes: 96, cluster: true, body: []string{"mov.u16 %h, 1",
			"cp.async.bulk.tensor.3d.shared::cluster.global.im2col" + tx + ".multicast::cluster [%box], [%map, {%c0, %c1, %c1}], [%bar], {0}, %h"}},
		{name: "pixels.prefetch", column: u32, tensor: solid, body: []string{"cp.async.bulk.prefetch.tensor.3d.L2.global.im2col [%map, {%c0, %c1, %c1}], {0}"}},
		{name: "pixels.store", column: u32, tensor: solid, over: "mem", body: append([]string{"cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%map, {%c0, %c1, %c1}], [%box]"}, finish...)},
		{name: "pixels.add", column: u32, tensor: solid, over: "mem", body: append([]string{"cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.im2col_no_offs.bulk_group [%map, {%c0, %c1, %c1}], [%box]"}, finish...)},
		{name: "map.prefetch", column: u32, tensor: flat, body: []string{"prefetch.tensormap [%map]", "prefetch.param.tensormap [map]"}},
		{name: "map.fences", column: u32, tensor: flat, version: "8.6", warp: true, body: []string{"mov.u64 %l, made", release, "fence.proxy.tensormap::generic.release.cta",
			"fence.proxy.tensormap::generic.acquire.gpu [%l], 128", "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
			"fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster"}},
	}
}

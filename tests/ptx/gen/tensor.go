package main

import (
	"fmt"
	"strings"
)

// tile is a fixture that moves boxes of a tensor between global and shared memory.
type tile struct {
	name   string
	source string // columns of the tensor's buffer
	rows   int    // and how many
	tensor string // the line of the map, behind its buffer: the type and the options
	dims   int
	at     []string // lists of coordinates, one for each dimension
	count  int      // how many boxes
	bytes  int      // of a box
	spread int      // bytes of its rows in shared memory, each of which takes the span of a swizzle
	mode   string   // "", ".tile" or ".im2col"
	offset []string // lists of offsets in im2col mode
	reduce string   // ".add" and so on: into the tensor
	stores bool
	data   string // column of what is stored
	fault  bool
}

// guardBytes lie behind a box in shared memory, to show what is written beyond it.
const guardBytes = 256

// lists are columns of the coordinates.
func lists(values []string) (columns []string) {
	for _, v := range values {
		columns = append(columns, "s32:list="+v)
	}
	return columns
}

// text is the source of the fixture.
func (f *tile) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	room := (max(f.bytes, f.spread) + guardBytes + 127) / 128 * 128
	kind := "in"
	if f.stores {
		kind = "inout"
	}
	line("//! %s tensor %d %s", kind, f.rows, f.source)
	line("//! in at %d %s", f.count, strings.Join(append(lists(f.at), lists(f.offset)...), " "))
	if f.stores {
		line("//! in data %d %s", room/(bitsOf(f.data)/8), f.data)
		line("//! tensor map tensor %s", f.tensor)
		line("//! run k grid 1 block 32 args map at data")
	} else {
		line("//! out out %d u32", room/4*f.count)
		line("//! out done %d u32", f.count)
		line("//! tensor map tensor %s", f.tensor)
		line("//! run k grid %d block 32 args map at out done", f.count)
	}
	if f.fault {
		line("//! fault")
	}
	line(".version 8.4\n.target sm_90\n.address_size 64\n")
	line(".shared .align 1024 .b8 box[%d];\n.shared .align 8 .b64 bar;", room)
	if f.stores {
		f.store(line, room)
	} else {
		f.load(line, room)
	}
	line("\tret;\n}")
	return b.String()
}

// coordinates loads the coordinates and offsets, and returns them as operands.
func (f *tile) coordinates(line func(string, ...any)) (at, offsets string) {
	var list, more []string
	for n := range f.at {
		line("\tld.global.u32 %%c%d, [%%at+%d];", n, 4*n)
		list = append(list, fmt.Sprintf("%%c%d", n))
	}
	for n := range f.offset {
		line("\tld.global.u16 %%o%d, [%%at+%d];", n, 4*(len(f.at)+n))
		more = append(more, fmt.Sprintf("%%o%d", n))
	}
	if len(more) > 0 {
		offsets = ", {" + strings.Join(more, ", ") + "}"
	}
	return "{" + strings.Join(list, ", ") + "}", offsets
}

const tileRegisters = "\t.reg .pred %p, %q;\n\t.reg .b16 %o<4>;\n\t.reg .b32 %c<5>, %box, %bar, %n, %x, %lane, %block, %tries;\n\t.reg .b64 %map, %at, %out, %done, %l;"

// load reads a box in each block and hands all of it out.
func (f *tile) load(line func(string, ...any), room int) {
	line(".visible .entry k(.param .align 64 .b8 map[128], .param .u64 at, .param .u64 out, .param .u64 done)\n{")
	line("%s", tileRegisters)
	line("\tmov.b64 %%map, map;\n\tcvta.param.u64 %%map, %%map;\n\tld.param.u64 %%at, [at];\n\tld.param.u64 %%out, [out];\n\tld.param.u64 %%done, [done];")
	line("\tmov.u32 %%box, box;\n\tmov.u32 %%bar, bar;\n\tmov.u32 %%lane, %%tid.x;\n\tmov.u32 %%block, %%ctaid.x;")
	line("\tmad.wide.u32 %%at, %%block, %d, %%at;\n\tmad.wide.u32 %%out, %%block, %d, %%out;\n\tmad.wide.u32 %%done, %%block, %d, %%done;", 4*(len(f.at)+len(f.offset)), room, 4)
	line("\tshl.b32 %%n, %%lane, 2;\nfill:\n\tadd.u32 %%x, %%box, %%n;\n\tst.shared.u32 [%%x], 0xa5a5a5a5;\n\tadd.u32 %%n, %%n, 128;\n\tsetp.lt.u32 %%p, %%n, %d;\n\t@%%p bra fill;", room)
	line("\tsetp.eq.u32 %%q, %%lane, 0;\n\t@%%q mbarrier.init.shared::cta.b64 [%%bar], 1;\n\tfence.proxy.async;\n\tbar.sync 0;\n\t@!%%q bra wait;")
	at, offsets := f.coordinates(line)
	line("\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%%bar], %d;", f.bytes)
	line("\tcp.async.bulk.tensor.%dd.shared::cluster.global%s.mbarrier::complete_tx::bytes [%%box], [%%map, %s], [%%bar]%s;", f.dims, f.mode, at, offsets)
	line("wait:\n\tmov.u32 %%tries, 0;\nagain:")
	line("\tmbarrier.try_wait.parity.shared::cta.b64 %%p, [%%bar], 0;")
	line("\t@%%p bra there;\n\tadd.u32 %%tries, %%tries, 1;\n\tsetp.lt.u32 %%p, %%tries, 100;\n\t@%%p bra again;\nthere:")
	line("\tmin.u32 %%tries, %%tries, 100;\n\tsetp.lt.u32 %%p, %%tries, 100;\n\tselp.u32 %%x, 1, 0, %%p;\n\t@%%q st.global.u32 [%%done], %%x;")
	line("\tshl.b32 %%n, %%lane, 2;\ncopy:\n\tadd.u32 %%x, %%box, %%n;\n\tld.shared.u32 %%x, [%%x];\n\tcvt.u64.u32 %%l, %%n;\n\tadd.u64 %%l, %%l, %%out;\n\tst.global.u32 [%%l], %%x;\n\tadd.u32 %%n, %%n, 128;\n\tsetp.lt.u32 %%p, %%n, %d;\n\t@%%p bra copy;", room)
}

// store writes a box after the other into the tensor.
func (f *tile) store(line func(string, ...any), room int) {
	line(".visible .entry k(.param .align 64 .b8 map[128], .param .u64 at, .param .u64 data)\n{")
	line("%s", tileRegisters)
	line("\tmov.b64 %%map, map;\n\tcvta.param.u64 %%map, %%map;\n\tld.param.u64 %%at, [at];\n\tld.param.u64 %%out, [data];")
	line("\tmov.u32 %%box, box;\n\tmov.u32 %%lane, %%tid.x;")
	line("\tshl.b32 %%n, %%lane, 2;\nfill:\n\tcvt.u64.u32 %%l, %%n;\n\tadd.u64 %%l, %%l, %%out;\n\tld.global.u32 %%bar, [%%l];\n\tadd.u32 %%x, %%box, %%n;\n\tst.shared.u32 [%%x], %%bar;\n\tadd.u32 %%n, %%n, 128;\n\tsetp.lt.u32 %%p, %%n, %d;\n\t@%%p bra fill;", room)
	line("\tsetp.eq.u32 %%q, %%lane, 0;\n\tfence.proxy.async.shared::cta;\n\tbar.sync 0;\n\t@!%%q bra done;\n\tmov.u32 %%block, 0;\nnext:")
	at, _ := f.coordinates(line)
	op := "cp.async.bulk"
	if f.reduce != "" {
		op = "cp.reduce.async.bulk"
	}
	line("\t%s.tensor.%dd.global.shared::cta%s%s.bulk_group [%%map, %s], [%%box];", op, f.dims, f.reduce, f.mode, at)
	line("\tcp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;\n\tadd.u64 %%at, %%at, %d;\n\tadd.u32 %%block, %%block, 1;\n\tsetp.lt.u32 %%p, %%block, %d;\n\t@%%p bra next;\ndone:", 4*len(f.at), f.count)
}

package main

import (
	"fmt"
	"strings"
)

// element is a type of a tensor's elements, and the column that fills it.
type element struct {
	name, column string
	bytes        int
}

var elements = []element{
	{name: "u8", column: "u8:rand", bytes: 1}, {name: "u16", column: "u16:rand", bytes: 2}, {name: "u32", column: "u32:rand", bytes: 4}, {name: "s32", column: "s32:rand", bytes: 4},
	{name: "u64", column: "u64:rand", bytes: 8}, {name: "s64", column: "s64:rand", bytes: 8}, {name: "f16", column: "u16:rand", bytes: 2}, {name: "f32", column: "f32:edge", bytes: 4},
	{name: "f64", column: "f64:edge", bytes: 8}, {name: "bf16", column: "u16:rand", bytes: 2}, {name: "f32ftz", column: "f32:edge", bytes: 4}, {name: "tf32", column: "f32:edge", bytes: 4},
	{name: "tf32ftz", column: "f32:edge", bytes: 4},
}

// numbers joins numbers with commas.
func numbers(list ...int) string {
	var words []string
	for _, n := range list {
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, ",")
}

// boxed is a tile of a tensor whose extents, box and steps are given, densely packed but for rows,
// which are padded to 16 bytes.
func boxed(name string, e element, dim, box, step []int, options string) tile {
	return boxedPad(name, e, dim, box, step, 0, options)
}

func boxedPad(name string, e element, dim, box, step []int, pad int, options string) tile {
	f := tile{name: name, source: e.column, dims: len(dim), bytes: e.bytes}
	pitch := (dim[0]*e.bytes+15)/16*16 + pad
	var strides []int
	for _, n := range dim[1:] {
		strides = append(strides, pitch)
		pitch *= n
	}
	f.rows = pitch / e.bytes
	f.tensor = e.name + " dim=" + numbers(dim...)
	if len(strides) > 0 {
		f.tensor += " stride=" + numbers(strides...)
	}
	f.tensor += " box=" + numbers(box...)
	if step != nil {
		f.tensor += " step=" + numbers(step...)
	}
	for n, extent := range box {
		if step != nil && (n > 0 || strings.Contains(options, "interleave")) {
			extent = (extent + step[n] - 1) / step[n]
		}
		f.bytes *= extent
	}
	if options != "" {
		f.tensor += " " + options
	}
	for _, span := range []int{32, 64, 128} {
		if row := box[0] * e.bytes; strings.Contains(options, fmt.Sprintf("swizzle=%d", span)) && row < span {
			f.spread = f.bytes / row * span
		}
	}
	return f
}

// along gives each dimension a list of coordinates: inside, over each border, and far off. Those of
// dimension 0 are multiples of grain: an H100 refuses coordinates that are not aligned to 16 bytes.
func (f tile) along(dim, box []int, grain int) tile {
	f.count = 8
	for n := range dim {
		unit := 1
		if n == 0 {
			unit = grain
		}
		list := []int{0, unit, -unit, dim[n] - 1, dim[n] - box[n], -box[n] + unit, dim[n] / 2, -box[n] * 3}
		for k := range list {
			list[k] -= list[k] % unit
		}
		turned := append(append([]int{}, list[n:]...), list[:n]...)
		f.at = append(f.at, numbers(turned...))
	}
	return f
}

// grain is how many elements take 16 bytes.
func (e element) grain() int { return 16 / e.bytes }

// tileLoads are loads of boxes.
func tileLoads() (list []tile) {
	add := func(name string, e element, dim, box, step []int, options string) {
		list = append(list, boxed("load."+name, e, dim, box, step, options).along(dim, box, e.grain()))
	}
	shapes := [][2][]int{{{100}, {32}}, {{50, 9}, {16, 4}}, {{20, 7, 5}, {16, 3, 2}}, {{18, 5, 4, 3}, {16, 2, 3, 2}}, {{17, 3, 4, 3, 3}, {16, 2, 2, 2, 2}}}
	for _, e := range elements {
		for _, s := range shapes {
			if e.bytes == 4 && e.name != "u32" && len(s[0]) > 2 || e.name == "s64" && len(s[0]) > 1 {
				continue
			}
			add(fmt.Sprintf("%s.%dd", e.name, len(s[0])), e, s[0], s[1], nil, "")
		}
	}
	for _, n := range []int{6, 7, 8, 9, 10, 11, 12} { // the floating-point types
		e := elements[n]
		add(e.name+".nan", e, []int{50, 9}, []int{16, 4}, nil, "nan")
	}
	for _, swizzle := range []int{32, 64, 128} {
		for _, e := range []element{elements[0], elements[1], elements[2], elements[4]} {
			for inner := 16; inner <= swizzle; inner *= 2 {
				n := inner / e.bytes
				add(fmt.Sprintf("%s.swizzle%d.of%d", e.name, swizzle, inner), e, []int{n + 3, 24}, []int{n, 20}, nil, fmt.Sprintf("swizzle=%d", swizzle))
			}
		}
		add(fmt.Sprintf("u32.swizzle%d.of48", swizzle), elements[2], []int{32, 24}, []int{min(swizzle/4, 12), 20}, nil, fmt.Sprintf("swizzle=%d", swizzle))
		add(fmt.Sprintf("u16.swizzle%d.3d", swizzle), elements[1], []int{40, 9, 7}, []int{swizzle / 2, 5, 3}, nil, fmt.Sprintf("swizzle=%d", swizzle))
	}
	for _, s := range [][]int{{1, 2}, {1, 3}, {1, 8}, {2, 1}, {3, 2}, {8, 5}} {
		add("u32.step."+strings.ReplaceAll(numbers(s...), ",", "_"), elements[2], []int{40, 30}, []int{16, 12}, s, "")
	}
	add("u8.step.3d", elements[0], []int{64, 11, 9}, []int{32, 7, 8}, []int{1, 2, 3}, "")
	add("u16.step.swizzle", elements[1], []int{64, 31, 9}, []int{32, 16, 8}, []int{1, 2, 4}, "swizzle=64")
	add("u32.promotion", elements[2], []int{40, 30}, []int{16, 12}, nil, "promotion=256")
	add("u8.wide", elements[0], []int{500, 9}, []int{256, 5}, nil, "")
	add("u32.small", elements[2], []int{3, 2}, []int{8, 5}, nil, "")
	f := boxedPad("load.u32.padded", elements[2], []int{40, 30}, []int{16, 12}, nil, 48, "").along([]int{40, 30}, []int{16, 12}, 4)
	list = append(list, f)
	return list
}

// interleaved are loads of interleaved tensors, whose elements are slices of 16 or 32 bytes of channels:
// dimension 0 counts these.
func interleaved() (list []tile) {
	add := func(e element, inter, swizzle int, dim, box, step []int) {
		f := tile{name: fmt.Sprintf("load.%s.interleave%d.swizzle%d.%s", e.name, inter, swizzle, strings.ReplaceAll(numbers(box...), ",", "x")), source: "u32:iota", dims: len(dim), bytes: inter}
		pitch, strides := dim[0]*inter, []int{}
		for _, n := range dim[1:] {
			strides = append(strides, pitch)
			pitch *= n
		}
		f.rows = pitch / 4
		for n, extent := range box {
			if step != nil {
				extent = (extent + step[n] - 1) / step[n]
			}
			if n != len(dim)-2 {
				f.bytes *= extent
			}
		}
		f.tensor = fmt.Sprintf("%s dim=%s stride=%s box=%s interleave=%d", e.name, numbers(dim...), numbers(strides...), numbers(box...), inter)
		if swizzle > 0 {
			f.tensor += fmt.Sprintf(" swizzle=%d", swizzle)
		}
		if step != nil {
			f.tensor += " step=" + numbers(step...)
			f.name += ".step"
		}
		list = append(list, f.along(dim, box, 1))
	}
	for _, c := range []int{1, 2, 4, 8, 16, 32} {
		add(elements[1], 16, 0, []int{16, 7, 40, 3}, []int{8, 3, c, 2}, nil)
		add(elements[2], 16, 0, []int{16, 7, 40, 3}, []int{8, 3, c, 2}, nil)
		add(elements[0], 32, 32, []int{16, 7, 40, 3}, []int{16, 3, c, 2}, nil)
	}
	for _, swizzle := range []int{32, 64, 128} {
		add(elements[1], 16, swizzle, []int{16, 7, 6, 3}, []int{8, 3, 1, 2}, nil)
		add(elements[1], 16, swizzle, []int{37, 7, 6, 3}, []int{24, 3, 1, 2}, nil)
	}
	add(elements[6], 32, 32, []int{37, 7, 6, 3}, []int{24, 3, 1, 2}, nil)
	add(elements[1], 16, 0, []int{20, 7, 3}, []int{16, 3, 2}, nil)
	add(elements[1], 16, 0, []int{20, 4, 5, 3, 2}, []int{8, 2, 2, 1, 2}, nil)
	add(elements[1], 16, 0, []int{40, 9, 6, 3}, []int{16, 5, 1, 2}, []int{2, 3, 1, 1})
	add(elements[1], 16, 0, []int{40, 9, 6, 3}, []int{16, 5, 4, 2}, []int{1, 2, 2, 1})
	return list
}

// pixelLoads are loads in im2col mode.
func pixelLoads() (list []tile) {
	add := func(name string, e element, dim, lower, upper, step []int, channels, pixels int, options string, offset []string) {
		f := boxed("load.im2col."+name, e, dim, dim, nil, "")
		f.tensor = strings.Split(f.tensor, " box=")[0] + fmt.Sprintf(" lower=%s upper=%s channels=%d pixels=%d", numbers(lower...), numbers(upper...), channels, pixels)
		if step != nil {
			f.tensor += " step=" + numbers(step...)
		}
		if options != "" {
			f.tensor += " " + options
		}
		f.bytes, f.mode, f.offset = channels*pixels*e.bytes, ".im2col", offset
		f = f.along(dim, dim, e.grain())
		f.at = []string{numbers(0, 0, e.grain(), 0, e.grain(), -e.grain(), 0, (dim[0]-1)/e.grain()*e.grain())}
		for n := range lower { // an H100 refuses columns that begin outside of the corners
			first, end := lower[n], dim[n+1]+upper[n]
			f.at = append(f.at, numbers(append([]int{first, end - 1, (first + end) / 2, first}, []int{end - 1, min(first+1, end-1), first, end - 1}...)...))
		}
		f.at = append(f.at, numbers(0, 0, 1, 0, 1, -1, last(dim), 0))
		list = append(list, f)
	}
	e := elements[1]
	zero := []string{"0"}
	some := []string{numbers(0, 1, 2, 0, 1, 2, 0, 1)}
	other := []string{numbers(0, 0, 1, 1, 2, 2, 0, 0)}
	cat := func(lists ...[]string) (all []string) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	add("3d", e, []int{16, 9, 3}, []int{0}, []int{0}, nil, 8, 12, "", zero)
	add("3d.offset", e, []int{16, 9, 3}, []int{-1}, []int{-2}, nil, 8, 12, "", some)
	add("4d", e, []int{16, 9, 7, 3}, []int{0, 0}, []int{0, 0}, nil, 8, 40, "", cat(zero, zero))
	add("4d.corner", e, []int{16, 9, 7, 3}, []int{-1, -1}, []int{-1, -1}, nil, 8, 40, "", cat(some, other))
	add("4d.outside", e, []int{16, 9, 7, 3}, []int{-2, -1}, []int{1, 2}, nil, 8, 100, "", cat(some, other))
	add("4d.step", e, []int{16, 9, 7, 3}, []int{-1, -1}, []int{-1, -1}, []int{1, 2, 2, 1}, 8, 30, "", cat(some, other))
	add("4d.step3", e, []int{16, 9, 7, 3}, []int{0, 0}, []int{0, 0}, []int{1, 3, 2, 2}, 8, 30, "", cat(some, other))
	add("4d.channels", e, []int{20, 9, 7, 3}, []int{-1, -1}, []int{-1, -1}, nil, 16, 40, "", cat(some, other))
	add("4d.long", e, []int{16, 9, 7, 3}, []int{0, 0}, []int{0, 0}, nil, 8, 300, "", cat(zero, zero))
	add("5d", e, []int{16, 5, 4, 3, 2}, []int{0, 0, 0}, []int{0, 0, 0}, nil, 8, 70, "", cat(zero, zero, zero))
	add("5d.corner", e, []int{16, 5, 4, 3, 2}, []int{-1, -1, -1}, []int{-1, -2, 0}, nil, 8, 70, "", cat(some, other, other))
	add("5d.step", e, []int{16, 5, 4, 3, 2}, []int{-1, -1, -1}, []int{-1, -1, -1}, []int{1, 2, 1, 2, 1}, 8, 40, "", cat(some, other, zero))
	add("4d.nan", elements[6], []int{16, 9, 7, 3}, []int{-1, -1}, []int{-1, -1}, nil, 8, 40, "nan", cat(some, other))
	for _, swizzle := range []int{32, 64, 128} {
		add(fmt.Sprintf("4d.swizzle%d", swizzle), e, []int{80, 9, 7, 3}, []int{-1, -1}, []int{-1, -1}, nil, swizzle/2, 40, fmt.Sprintf("swizzle=%d", swizzle), cat(some, other))
	}
	add("4d.f64", elements[8], []int{16, 9, 7, 3}, []int{-1, -1}, []int{-1, -1}, nil, 8, 40, "", cat(some, other))
	add("4d.u8", elements[0], []int{48, 9, 7, 3}, []int{-1, -1}, []int{-1, -1}, nil, 16, 40, "", cat(some, other))
	return list
}

func last(dim []int) int { return dim[len(dim)-1] - 1 }

// tileStores write boxes and reduce into them.
func tileStores() (list []tile) {
	add := func(name string, e element, dim, box, step []int, options, reduce, data string) {
		f := boxed(name, e, dim, box, step, options).along(dim, box, e.grain())
		f.stores, f.reduce, f.data = true, reduce, data
		f.at = nil // an H100 refuses negative coordinates of stores
		for n, d := range dim {
			unit := 1
			if n == 0 {
				unit = e.grain()
			}
			list := []int{0, unit, d - 1, max(d-box[n], 0), d, d / 2, 3 * d, 2 * unit}
			for k := range list {
				list[k] -= list[k] % unit
			}
			f.at = append(f.at, numbers(append(append([]int{}, list[n:]...), list[:n]...)...))
		}
		list = append(list, f)
	}
	shapes := [][2][]int{{{100}, {32}}, {{50, 9}, {16, 4}}, {{20, 7, 5}, {16, 3, 2}}, {{18, 5, 4, 3}, {16, 2, 3, 2}}, {{17, 3, 4, 3, 3}, {16, 2, 2, 2, 2}}}
	for n, e := range elements {
		for k, s := range shapes {
			if n != 1 && k != 1 {
				continue
			}
			add(fmt.Sprintf("store.%s.%dd", e.name, len(s[0])), e, s[0], s[1], nil, "", "", e.column)
		}
	}
	for _, swizzle := range []int{32, 64, 128} {
		e := elements[1]
		add(fmt.Sprintf("store.u16.swizzle%d", swizzle), e, []int{40, 24}, []int{swizzle / 2, 20}, nil, fmt.Sprintf("swizzle=%d", swizzle), "", e.column)
		add(fmt.Sprintf("store.u16.swizzle%d.narrow", swizzle), e, []int{40, 24}, []int{swizzle / 4, 20}, nil, fmt.Sprintf("swizzle=%d", swizzle), "", e.column)
	}
	add("store.u32.step", elements[2], []int{40, 30}, []int{16, 12}, []int{1, 3}, "", "", "u32:rand")
	add("store.u32.step0", elements[2], []int{40, 30}, []int{16, 12}, []int{4, 3}, "", "", "u32:rand")
	for _, r := range []struct{ op, types string }{
		{op: "add", types: "u32 s32 u64 f16 bf16 f32 f64 f32ftz tf32"}, {op: "min", types: "u32 s32 u64 s64 f16 bf16"}, {op: "max", types: "u32 s32 u64 s64 f16 bf16"},
		{op: "inc", types: "u32"}, {op: "dec", types: "u32"}, {op: "and", types: "u32 u64 s32"}, {op: "or", types: "u32 u64"}, {op: "xor", types: "u32 u64"},
	} {
		for _, e := range elements {
			if strings.Contains(" "+r.types+" ", " "+e.name+" ") {
				if e.name == "f16" || e.name == "bf16" {
					e.column = e.name + ":edge"
				}
				add("reduce."+r.op+"."+e.name, e, []int{50, 9}, []int{16, 4}, nil, "", "."+r.op, e.column)
			}
		}
	}
	return list
}

// tensorSources are the fixtures of folder tensor.
func tensorSources() map[string]string {
	files := map[string]string{}
	for _, group := range [][]tile{tileLoads(), interleaved(), pixelLoads(), tileStores()} {
		for _, f := range group {
			if _, twice := files[f.name]; twice {
				panic("two fixtures are named " + f.name)
			}
			files[f.name] = f.text()
		}
	}
	for _, f := range bulkCopies() {
		if _, twice := files[f.name]; twice {
			panic("two fixtures are named " + f.name)
		}
		files[f.name] = f.text()
	}
	return files
}

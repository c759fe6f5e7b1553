package main

import (
	"fmt"
	"strings"
)

// vectorAtomic is an atom or red on a vector, of which each element is an atomic operation of
// its own. The row holds what memory had, element by element, and what it has then.
func vectorAtomic(op, operation, element string, count int) spec {
	column := element + ":edge"
	if !strings.HasPrefix(element, "f32") {
		column = strings.TrimSuffix(element, "x2") + "x2:edge"
	}
	instr := fmt.Sprintf("%s.%s.v%d.%s", op, operation, count, element)
	s := spec{name: instr, in: []string{column, column, column, column}, out: strings.Fields(strings.Repeat("u32 ", 8)), rows: 400, block: 80}
	s.body = []string{"add.u64 %l0, %to, 16", "st.global.v4.b32 [%l0], {%a, %b, %c, %d}",
		"mov.b32 %x0, 0", "mov.b32 %x1, 0", "mov.b32 %x2, 0", "mov.b32 %x3, 0"}
	list := func(names []string) string { return "{" + strings.Join(names[:count], ", ") + "}" }
	results, operands := []string{"%x0", "%x1", "%x2", "%x3"}, []string{"%b", "%a", "%d", "%c"}
	halves := element == "f16" || element == "bf16"
	if halves {
		s.locals = []string{".reg .b16 %o<8>, %k<8>;"}
		words := operands
		results, operands = nil, nil
		for n := range 8 {
			results, operands = append(results, fmt.Sprintf("%%k%d", n)), append(operands, fmt.Sprintf("%%o%d", n))
			s.body = append(s.body, fmt.Sprintf("mov.b16 %%k%d, 0", n))
		}
		for n, w := range words {
			s.body = append(s.body, fmt.Sprintf("mov.b32 {%%o%d, %%o%d}, %s", 2*n, 2*n+1, w))
		}
	}
	if strings.HasPrefix(op, "red") {
		s.body = append(s.body, instr+" [%l0], "+list(operands))
	} else {
		s.body = append(s.body, instr+" "+list(results)+", [%l0], "+list(operands))
	}
	for n := range 4 {
		if halves {
			s.body = append(s.body, fmt.Sprintf("mov.b32 %%x%d, {%%k%d, %%k%d}", n, 2*n, 2*n+1))
		}
	}
	s.body = append(s.body, "ld.global.v4.b32 {%x4, %x5, %x6, %x7}, [%l0]")
	return s
}

// vectorAtomicSpecs are atom and red on vectors.
func vectorAtomicSpecs() (list []spec) {
	for _, op := range []string{"atom.global", "red.global"} {
		for _, count := range []int{2, 4} {
			list = append(list, vectorAtomic(op, "add", "f32", count))
		}
		for _, operation := range []string{"add.noftz", "min.noftz", "max.noftz"} {
			for _, element := range []string{"f16", "bf16"} {
				for _, count := range []int{2, 4, 8} {
					if op == "atom.global" || count == 8 {
						list = append(list, vectorAtomic(op, operation, element, count))
					}
				}
				for _, count := range []int{2, 4} {
					list = append(list, vectorAtomic(op, operation, element+"x2", count))
				}
			}
		}
	}
	for _, h := range []struct {
		op, operation, element string
		count                  int
	}{
		{op: "atom.global", operation: "add", element: "f32", count: 2}, {op: "red.global", operation: "add", element: "f32", count: 4},
		{op: "atom.global", operation: "max.noftz", element: "bf16", count: 8}, {op: "red.global", operation: "add.noftz", element: "f16", count: 4},
		{op: "atom.global", operation: "min.noftz", element: "f16x2", count: 4}, {op: "red.global", operation: "max.noftz", element: "bf16x2", count: 2},
	} {
		s := vectorAtomic(h.op, h.operation, h.element, h.count)
		for n, line := range s.body {
			if strings.HasPrefix(line, s.name+" ") {
				s.body[n] = strings.Replace(line, h.operation, h.operation+".L2::cache_hint", 1) + ", %l3"
			}
		}
		s.name, s.body = s.name+".hint", append([]string{"createpolicy.fractional.L2::evict_first.b64 %l3, 1.0"}, s.body...)
		list = append(list, s)
	}
	list = append(list, vectorAtomic("atom.relaxed.gpu.global", "add", "f32", 4), vectorAtomic("atom", "add", "f32", 2),
		vectorAtomic("red.release.sys.global", "add.noftz", "bf16x2", 4))
	return list
}

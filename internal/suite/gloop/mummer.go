package gloop

import (
	"bytes"
	"fmt"
	"slices"
)

// Sizes of mummergpu; see device/mummergpu.h.
const (
	mummerReference = 16 << 10 // bases, with size 1
	mummerQueries   = 64       // with size 1
	mummerQuery     = 64       // bases of a query
	mummerLeast     = 14       // of a match
	mummerMost      = 8
	mummerThreads   = 64
	mummerStride    = 32 // places of a query in a step
)

// mummerArgs is Mummer of device/mummergpu.h.
type mummerArgs struct {
	Reference, Suffixes uint64
	Length              uint32
	_                   uint32
	Queries             uint64
	Count, Query, Least uint32
	_                   uint32
	Matches, Printed    uint64
}

// sequences are a reference and queries.
type sequences struct {
	reference []byte
	queries   [][]byte
	suffixes  []uint32 // of the reference, sorted
	index     map[string][]uint32
}

func makeSequences(length, queries int) sequences {
	r := newRandom(53)
	bases := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ACGT"[r.below(4)]
		}
		return b
	}
	s := sequences{reference: bases(length), index: map[string][]uint32{}}
	// Some stretches occur twice or more.
	for range 16 {
		from, to := r.below(length-100), r.below(length-100)
		copy(s.reference[to:to+100], s.reference[from:])
	}
	for range queries {
		q := bases(mummerQuery)
		for at := 0; at+24 < mummerQuery; at += 32 { // stretches of the reference
			copy(q[at:at+24], s.reference[r.below(length-24):])
		}
		s.queries = append(s.queries, q)
	}
	s.suffixes = make([]uint32, length)
	for i := range s.suffixes {
		s.suffixes[i] = uint32(i)
	}
	slices.SortFunc(s.suffixes, func(a, b uint32) int { return bytes.Compare(s.reference[a:], s.reference[b:]) })
	for i := 0; i+mummerLeast <= len(s.reference); i++ {
		k := string(s.reference[i : i+mummerLeast])
		s.index[k] = append(s.index[k], uint32(i))
	}
	return s
}

// find returns the longest prefix of text that occurs in the reference, of at least mummerLeast
// bases, and where. It knows where each stretch of that length occurs, and nothing of suffixes.
func (s *sequences) find(text []byte) (length int, places []uint32) {
	if len(text) < mummerLeast {
		return 0, nil
	}
	for _, at := range s.index[string(text[:mummerLeast])] {
		n := 0
		for n < len(text) && int(at)+n < len(s.reference) && s.reference[int(at)+n] == text[n] {
			n++
		}
		if n > length {
			length, places = n, nil
		}
		if n == length {
			places = append(places, at)
		}
	}
	return length, places
}

// check compares what the print kernel wrote with what find finds.
func (s *sequences) check(printed []uint32, lengths func(at int) uint32) error {
	for i, q := range s.queries {
		for place := range q {
			at := i*mummerQuery + place
			got := printed[at*(1+mummerMost):][:1+mummerMost]
			length, places := s.find(q[place:])
			if int(got[0]) != len(places) {
				return fmt.Errorf("query %d, place %d: %d matches instead of %d", i, place, got[0], len(places))
			}
			if len(places) == 0 {
				continue
			}
			if n := lengths(at); int(n) != length {
				return fmt.Errorf("query %d, place %d: a match of %d bases instead of %d", i, place, n, length)
			}
			for _, p := range got[1 : 1+min(len(places), mummerMost)] {
				if _, ok := slices.BinarySearch(places, p); !ok {
					return fmt.Errorf("query %d, place %d: a match at %d, where there is none", i, place, p)
				}
			}
		}
	}
	return nil
}

var mummerSequences memo[sequences]

func prepareMummer(j *job) (task, error) {
	s := mummerSequences.get(j.Size, func() sequences {
		return makeSequences(mummerReference*min(j.Size, 16), mummerQueries*j.Size)
	})
	places := len(s.queries) * mummerQuery
	m, err := j.uploads(s.reference, s.suffixes, slices.Concat(s.queries...), places*12, places*4*(1+mummerMost))
	if err != nil {
		return task{}, err
	}
	args := bytesOf(mummerArgs{Reference: uint64(m[0]), Suffixes: uint64(m[1]), Length: uint32(len(s.reference)), Queries: uint64(m[2]),
		Count: uint32(len(s.queries)), Query: mummerQuery, Least: mummerLeast, Matches: uint64(m[3]), Printed: uint64(m[4])})
	blocks := (len(s.queries) + mummerThreads - 1) / mummerThreads
	prints := (places + mummerThreads - 1) / mummerThreads
	resident, err := j.resident()
	if err != nil {
		return task{}, err
	}
	match := loopLaunch{kernel: "mummer_match", logical: blocks, threads: mummerThreads}
	show := loopLaunch{kernel: "mummer_print", blocks: min(2*resident, prints), logical: prints, threads: mummerThreads}
	if err := j.ready(match, show); err != nil {
		return task{}, err
	}
	work := func() error {
		if err := j.clear(m[4], 0, places*4*(1+mummerMost)); err != nil {
			return err
		}
		switch {
		case j.Version.loops():
			if err := j.loop(match, args); err != nil {
				return err
			}
			return j.loop(show, args)
		case j.Version == Split:
			for first := 0; first < mummerQuery; first += mummerStride {
				if err := j.step("mummer_match", blocks, mummerThreads, args, uint32(first), uint32(first+mummerStride)); err != nil {
					return err
				}
			}
			for first := 0; first < prints; first += resident {
				if err := j.step("mummer_print", min(resident, prints-first), mummerThreads, args, uint32(first)); err != nil {
					return err
				}
			}
			return nil
		}
		if err := j.launch("mummer_match", blocks, mummerThreads, args, uint32(0), uint32(mummerQuery)); err != nil {
			return err
		}
		if err := j.launch("mummer_print", prints, mummerThreads, args, uint32(0)); err != nil {
			return err
		}
		return j.sync()
	}
	check := func() error {
		printed, matches := make([]uint32, places*(1+mummerMost)), make([]uint32, places*3)
		if err := j.read(printed, m[4]); err != nil {
			return err
		}
		if err := j.read(matches, m[3]); err != nil {
			return err
		}
		return s.check(printed, func(at int) uint32 { return matches[3*at] })
	}
	return task{work: work, check: check}, nil
}

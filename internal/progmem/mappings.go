package progmem

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Mapping is a line of /proc/self/maps.
type Mapping struct {
	Start, End   uint64
	Perms        string // such as "rw-p"
	Offset       uint64 // in the file
	Major, Minor uint32 // of the file's device
	Inode        uint64 // 0: no file
	Name         string // a path, or "[heap]"; may be empty
}

// Mappings returns what the process has mapped, in order.
func Mappings() ([]Mapping, error) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	return parseMappings(string(text))
}

func parseMappings(text string) (all []Mapping, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.Fields(line)
		if len(fields) < 5 || len(fields[1]) != 4 {
			return nil, fmt.Errorf("/proc/self/maps has a line %q", line)
		}
		from, to, _ := strings.Cut(fields[0], "-")
		major, minor, _ := strings.Cut(fields[3], ":")
		var wrong error
		number := func(s string, base, bits int) uint64 {
			v, err := strconv.ParseUint(s, base, bits)
			wrong = errors.Join(wrong, err)
			return v
		}
		m := Mapping{Start: number(from, 16, 64), End: number(to, 16, 64), Perms: fields[1], Offset: number(fields[2], 16, 64),
			Major: uint32(number(major, 16, 32)), Minor: uint32(number(minor, 16, 32)), Inode: number(fields[4], 10, 64)}
		if wrong != nil || m.End <= m.Start {
			return nil, fmt.Errorf("/proc/self/maps has a line %q: %w", line, wrong)
		}
		if len(fields) > 5 {
			m.Name = strings.Join(fields[5:], " ")
		}
		all = append(all, m)
	}
	return all, nil
}

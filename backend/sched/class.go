package sched

import (
	"fmt"
	"slices"
	"strings"
)

// Class is the kind of service that a guest needs.
type Class uint8

// Classes of guests.
const (
	Batch   Class = iota // throughput counts; the zero value
	Latency              // a user waits for each result
)

var classNames = []string{Batch: "batch", Latency: "latency"}

// ClassNames are the names of all classes.
func ClassNames() []string { return slices.Clone(classNames) }

// String is the class's name, or its number if it has none.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// MarshalText is part of encoding.TextMarshaler.
func (c Class) MarshalText() ([]byte, error) {
	if int(c) >= len(classNames) {
		return nil, fmt.Errorf("%w: %v", ErrShare, c)
	}
	return []byte(c.String()), nil
}

// UnmarshalText is part of encoding.TextUnmarshaler.
func (c *Class) UnmarshalText(text []byte) error {
	i := slices.Index(classNames, string(text))
	if i < 0 {
		return fmt.Errorf("%w: class %q; choose %s", ErrShare, text, strings.Join(classNames, ", "))
	}
	*c = Class(i)
	return nil
}

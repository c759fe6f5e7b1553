package frameworks

import (
	"fmt"
	"regexp"
	"strings"
)

// Programs list their groups in a tuple, or mark each.
var (
	listed = regexp.MustCompile(`f\.__name__: f for f in \(([^)]*)\)`)
	marked = regexp.MustCompile(`(?m)^@group\ndef (\w+)\(`)
)

// Groups lists the groups of a framework's program, in the order in which it runs them.
func Groups(framework string) (names []string, err error) {
	text, err := scripts.ReadFile(Program(framework))
	if err != nil {
		return nil, fmt.Errorf("there are no programs of %q", framework)
	}
	for _, m := range marked.FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	if m := listed.FindSubmatch(text); m != nil {
		for _, name := range strings.Split(string(m[1]), ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names, nil
}

// Choose returns those of the wanted groups that each of some frameworks has: all of its where none are wanted. A group that none
// of them has is an error, and so is a framework that has none of them.
func Choose(frameworks, wanted []string) (map[string][]string, error) {
	chosen, known, all := map[string][]string{}, map[string]bool{}, []string(nil)
	for _, framework := range frameworks {
		names, err := Groups(framework)
		if err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprintf("%s has %s", framework, strings.Join(names, ", ")))
		for _, name := range names {
			known[name] = true
		}
		chosen[framework] = names
		if len(wanted) > 0 {
			chosen[framework] = common(wanted, names)
		}
	}
	for _, name := range wanted {
		if !known[name] {
			return nil, fmt.Errorf("there is no group %q: %s", name, strings.Join(all, "; "))
		}
	}
	for _, framework := range frameworks {
		if len(chosen[framework]) == 0 {
			return nil, fmt.Errorf("%s has none of the groups %s: %s", framework, strings.Join(wanted, ", "), strings.Join(all, "; "))
		}
	}
	return chosen, nil
}

// common are the names of one list that are in another, in the order of the first.
func common(names, others []string) (both []string) {
	for _, name := range names {
		for _, other := range others {
			if name == other {
				both = append(both, name)
				break
			}
		}
	}
	return both
}

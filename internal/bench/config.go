package bench

import (
	"fmt"
	"slices"
	"strings"
)

// switches are what can be switched off in the frontend.
var switches = []string{"nopoll", "nomulticall", "nopool"}

// Ablation are the configurations that show what each technique brings.
var Ablation = []string{Full, "nopool", "nomulticall", "nopoll", "nopoll+nomulticall+nopool"}

// CheckConfig is nil for the name of a configuration: full, or switches joined by +.
func CheckConfig(name string) error {
	if name == Full {
		return nil
	}
	for word := range strings.SplitSeq(name, "+") {
		if !slices.Contains(switches, word) {
			return fmt.Errorf("%q is neither full nor made of %s, joined by +", name, strings.Join(switches, ", "))
		}
	}
	return nil
}

// Switches is what a configuration is for frontend.ConfigEnv.
func Switches(config string) string {
	if config == Full {
		return ""
	}
	return strings.ReplaceAll(config, "+", ",")
}

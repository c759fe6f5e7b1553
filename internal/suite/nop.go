package suite

var nopBench = Bench{
	Fixed:       true,
	Name:        "nop",
	Description: "open and close a context, with no work for the GPU",
	Input:       "none",
	Run:         runNop,
}

// runNop has no result to check: it is right when nothing failed.
func runNop(e *Env) error {
	return e.begin("").end()
}

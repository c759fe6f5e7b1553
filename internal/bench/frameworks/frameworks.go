// Package frameworks has programs of PyTorch (with Triton), JAX and CuPy, and compares what they print in
// several places: natively, as a local guest, in a virtual machine. Each says results as digests, which must be
// the same everywhere, and how long things took.
package frameworks

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

//go:embed *.py
var scripts embed.FS

// Names lists the frameworks.
var Names = []string{"torch", "jax", "cupy"}

// Programs stands, beside the frameworks, for small programs of libraries that build on them: transformers, timm,
// Lightning, PyTorch Geometric, torchvision, Diffrax, NumPyro, Optax and others.
const Programs = "programs"

// Write puts the programs into a directory.
func Write(dir string) error {
	files, err := fs.Glob(scripts, "*.py")
	if err != nil {
		return fmt.Errorf("listing the programs: %w", err)
	}
	for _, name := range files {
		text, err := scripts.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("writing a program: %w", err)
		}
	}
	return nil
}

// Program is the file of a framework's program.
func Program(framework string) string { return framework + "_bench.py" }

// Figure is how long something took, once for each value.
type Figure struct {
	Name   string    `json:"figure"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
}

// Run is what a program said in one run.
type Run struct {
	Framework string            `json:"framework"`
	Place     string            `json:"place"`
	Round     int               `json:"round"`
	Versions  string            `json:"versions,omitempty"`
	Device    string            `json:"device,omitempty"`
	Seconds   float64           `json:"seconds"`
	Results   map[string]string `json:"results"`
	Figures   []Figure          `json:"figures"`
	Failed    map[string]string `json:"failed,omitempty"` // groups, and why
	Error     string            `json:"error,omitempty"`  // of the program as a whole
}

// line is what a program prints behind prefix.
type line struct {
	Figure
	Result   string `json:"result"`
	Digest   string `json:"digest"`
	Failed   string `json:"failed"`
	Error    string `json:"error"`
	Versions string `json:"versions"`
	Device   string `json:"device"`
}

// What bounds the output of a program.
const (
	longestLine = 1 << 20
	mostLines   = 10_000
)

// Read reads what a program printed. Lines that are not for us are left out.
func (r *Run) Read(out []byte) error {
	prefix := []byte("pvdrm:")
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, longestLine)
	r.Results, r.Failed = map[string]string{}, map[string]string{}
	for n := 0; lines.Scan(); {
		// The end of a line may follow something that the framework printed without one.
		_, text, ours := bytes.Cut(lines.Bytes(), prefix)
		if !ours {
			continue
		}
		if n++; n > mostLines {
			return fmt.Errorf("the program printed more than %d results", mostLines)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("the program printed %.80q: %w", text, err)
		}
		switch {
		case l.Figure.Name != "":
			r.Figures = append(r.Figures, l.Figure)
		case l.Result != "":
			r.Results[l.Result] = l.Digest
		case l.Failed != "":
			r.Failed[l.Failed] = l.Error
		default:
			r.Versions, r.Device = l.Versions, l.Device
		}
	}
	return lines.Err()
}

// figure returns a figure by its name.
func (r *Run) figure(name string) (Figure, bool) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return r.Figures[i], true
}

// Package device has GLoop's device library: C++ headers for kernels that run as event loops
// (gloop.h). clang compiles them without a CUDA SDK (scripts/gloop.sh).
package device

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed *.h
var headers embed.FS

// Headers are gloop.h and what it includes, by name.
func Headers() fs.FS { return headers }

// Check compares PTX that scripts/gloop.sh made with the sources that it should be of: the headers of
// this package, those beside the program in the order of their names, and the program.
func Check(ptx []byte, sources ...[]byte) error {
	const prefix = "// made by scripts/gloop.sh of sources "
	first, _, _ := bytes.Cut(ptx, []byte("\n"))
	got, ok := bytes.CutPrefix(first, []byte(prefix))
	if !ok {
		return errors.New("scripts/gloop.sh did not make this PTX")
	}
	h := sha256.New()
	entries, err := headers.ReadDir(".") // in the order of their names
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, err := headers.ReadFile(e.Name())
		if err != nil {
			return err
		}
		h.Write(text) // never fails
	}
	for _, s := range sources {
		h.Write(s)
	}
	if want := hex.EncodeToString(h.Sum(nil)); want != string(got) {
		return fmt.Errorf("the PTX was made of other sources: run make gloop (sources %s, PTX %s)", want, got)
	}
	return nil
}

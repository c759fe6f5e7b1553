package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/ebitengine/purego"
)

// errNoLibrary says that a library is not installed.
var errNoLibrary = errors.New("a library is missing")

// loadFunctions fills the fields of a struct with the functions of a library of a
// Debian package. The name of a function is the prefix, then the name of its field
// or what the field's tag says.
func loadFunctions(file, prefix, debian string, to any) error {
	lib, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return fmt.Errorf("%w: %w; on Debian: apt-get install %s libgl1-mesa-dri", errNoLibrary, err, debian)
	}
	v := reflect.ValueOf(to).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name := prefix + cmp.Or(field.Tag.Get("name"), field.Name)
		if _, err := purego.Dlsym(lib, name); err != nil {
			return fmt.Errorf("%s of %s: %w", name, file, err)
		}
		purego.RegisterLibFunc(v.Field(i).Addr().Interface(), lib, name)
	}
	return nil
}

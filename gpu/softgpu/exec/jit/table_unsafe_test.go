package jit

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Each vector of the constants lies in one line of the cache.
func TestTableLines(t *testing.T) {
	const line = 64
	require.Zero(t, uintptr(unsafe.Pointer(theTable))%line)
	for i := range reflect.TypeFor[nativeTable]().NumField() {
		f := reflect.TypeFor[nativeTable]().Field(i)
		for f.Type.Kind() == reflect.Array && f.Type.Elem().Kind() == reflect.Array {
			f.Type = f.Type.Elem()
		}
		if f.Type.Kind() == reflect.Array && f.Type.Size()%line == 0 && f.Name != "doubles" && f.Name != "words" { // those are single
			require.Zero(t, f.Offset%line, f.Name)
		}
	}
}

package drm

// IsImage reports whether the source of a module is machine code, by its first bytes: a fatbin or an ELF
// file. All else is PTX.
func IsImage(source []byte) bool {
	return len(source) >= 4 && (string(source[:4]) == "\x7fELF" || string(source[:4]) == "\x50\xed\x55\xba")
}

// MostSource returns how many bytes a source that begins so may have.
func MostSource(source []byte) uint64 {
	if IsImage(source) {
		return MaxImage
	}
	return MaxSource
}

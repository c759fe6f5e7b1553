package guestimage

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

const (
	arMagic      = "!<arch>\n"
	arHeaderSize = 60
)

// debFiles calls visit with each file of a Debian package, until it is done or fails.
func debFiles(deb string, visit func(h *tar.Header, r io.Reader) (done bool, err error)) error {
	f, err := os.Open(deb)
	if err != nil {
		return err
	}
	defer f.Close()
	files, err := debData(f)
	for done := false; err == nil && !done; {
		var h *tar.Header
		if h, err = files.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err == nil {
			done, err = visit(h, files)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(deb), err)
	}
	return nil
}

// debData returns the tar stream of the files in a Debian package (deb(5)): an ar(5) archive whose
// member data.tar holds them, compressed.
func debData(r io.Reader) (*tar.Reader, error) {
	br := bufio.NewReaderSize(r, 1<<16)
	magic := make([]byte, len(arMagic))
	if _, err := io.ReadFull(br, magic); err != nil || string(magic) != arMagic {
		return nil, errors.New("not a Debian package: no ar magic")
	}
	for {
		name, size, err := arHeader(br)
		if errors.Is(err, io.EOF) {
			return nil, errors.New("not a Debian package: no data.tar in it")
		}
		if err != nil {
			return nil, err
		}
		if suffix, ok := strings.CutPrefix(name, "data.tar"); ok {
			data, err := decompress(io.LimitReader(br, size), suffix)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			return tar.NewReader(data), nil
		}
		if _, err := io.CopyN(io.Discard, br, size+size&1); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// arHeader reads the header of the next member. Members begin at even offsets.
func arHeader(r io.Reader) (name string, size int64, err error) {
	var h [arHeaderSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return "", 0, err
	}
	if !bytes.Equal(h[58:], []byte("`\n")) {
		return "", 0, errors.New("damaged ar header")
	}
	size, err = strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 63)
	if err != nil || size < 0 {
		return "", 0, fmt.Errorf("damaged ar header: size %q", h[48:58])
	}
	return strings.TrimRight(string(h[:16]), "/ "), size, nil
}

// decompress picks the decompressor by a file name's suffix.
func decompress(r io.Reader, suffix string) (io.Reader, error) {
	switch suffix {
	case "":
		return r, nil
	case ".xz":
		return xz.NewReader(r)
	case ".gz":
		return gzip.NewReader(r)
	case ".zst": // Ubuntu's
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20)) // it starts no goroutine
	}
	return nil, fmt.Errorf("compression %q is not supported (want .xz, .gz or .zst)", suffix)
}

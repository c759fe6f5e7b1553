// Package oci reads container images (OCI Image Format Specification 1.1, and what `docker save`
// writes) and makes of one the file system that a guest has as its root.
//
// An image is hostile: names, links and sizes are checked, and nothing of it becomes a file of the
// host. Its files go into an EROFS, which only the guest's kernel reads.
package oci

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// platform is what guests run.
var platform = v1.Platform{OS: "linux", Architecture: "amd64"}

// Files that tell one form of an image from another.
const (
	layoutIndex  = "index.json"    // of an OCI layout
	dockerIndex  = "manifest.json" // of an archive of `docker save`
	layoutMarker = "oci-layout"
)

// Image is an image for the platform of guests.
type Image struct {
	img   v1.Image
	close func() error
}

// Open finds an image: a directory with an OCI layout, an archive (of `docker save`, `podman save`
// or `skopeo copy … oci-archive:`, also compressed by gzip), or else a reference in a registry, such
// as debian:12 or localhost:5000/a@sha256:…. A registry is asked for the manifest here, and for
// layers later. tmp is a directory for what an archive has to be unpacked to.
func Open(ctx context.Context, source, tmp string) (*Image, error) {
	st, err := os.Stat(source)
	switch {
	case err == nil && st.IsDir():
		return fromLayout(source, nil)
	case err == nil:
		return fromArchive(source, tmp)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case filepath.IsAbs(source) || source == "" || source[0] == '.':
		return nil, fmt.Errorf("%s is no file, directory or name of an image: %w", source, err)
	}
	ref, err := name.ParseReference(source)
	if err != nil {
		return nil, fmt.Errorf("%s is no file or directory, and no name of an image either: %w", source, err)
	}
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(platform), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return nil, fmt.Errorf("ask the registry for %s (an image that lies here can be given as a directory or archive): %w", ref.Name(), err)
	}
	return &Image{img: img}, nil
}

// Close removes what Open unpacked.
func (i *Image) Close() error {
	if i.close == nil {
		return nil
	}
	return i.close()
}

// Digest is the SHA-256 of the image's manifest, in hexadecimal. It names the content.
func (i *Image) Digest() (string, error) {
	h, err := i.img.Digest()
	if err != nil {
		return "", fmt.Errorf("the image's manifest: %w", err)
	}
	return h.Hex, nil
}

// fromLayout opens the image of the guest's platform in a directory.
func fromLayout(dir string, done func() error) (*Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s, so it is no OCI layout (a directory with a root file system is given by --root): %w", dir, layoutIndex, err)
	}
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	img, err := choose(index, maxIndexDepth)
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	return &Image{img: img, close: done}, nil
}

// maxIndexDepth bounds how deep indexes may lie in indexes. Tools write one in another at most.
const maxIndexDepth = 4

// choose returns the only image of the platform in an index.
func choose(index v1.ImageIndex, depth int) (v1.Image, error) {
	if depth == 0 {
		return nil, errors.New("its indexes lie too deep in each other")
	}
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var found []v1.Image
	for _, d := range m.Manifests {
		switch {
		case d.MediaType.IsIndex():
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			img, err := choose(inner, depth-1)
			if err != nil {
				return nil, err
			}
			found = append(found, img)
		case d.MediaType.IsImage() && (d.Platform == nil || d.Platform.Satisfies(platform)):
			img, err := index.Image(d.Digest)
			if err != nil {
				return nil, err
			}
			found = append(found, img)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("it has %d images for %s, and not one", len(found), platform)
	}
	return found[0], nil
}

// archive returns how to read an archive from its beginning, whether it is compressed or not.
func archive(file string) tarball.Opener {
	return func() (io.ReadCloser, error) {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		r := bufio.NewReaderSize(f, 1<<16)
		if magic, err := r.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
			return readCloser{r, f}, nil
		}
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return readCloser{z, f}, nil
	}
}

// readCloser reads from one thing and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// fromArchive opens the image in an archive. That of an OCI layout is unpacked first, since its
// parts come in any order.
func fromArchive(file, tmp string) (*Image, error) {
	docker, err := hasDockerIndex(file)
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", file, err)
	}
	if docker {
		img, err := tarball.Image(archive(file), nil)
		if err != nil {
			return nil, fmt.Errorf("archive %s: %w", file, err)
		}
		return &Image{img: img}, nil
	}
	dir, err := os.MkdirTemp(tmp, "oci-")
	if err != nil {
		return nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	if err := unpackLayout(file, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("archive %s: %w", file, err), remove())
	}
	img, err := fromLayout(dir, remove)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("archive %s: %w", file, err), remove())
	}
	return img, nil
}

// eachFile calls f with the regular files of an archive, until f says that it is done.
func eachFile(file string, f func(h *tar.Header, r io.Reader) (done bool, err error)) error {
	open, err := archive(file)()
	if err != nil {
		return err
	}
	defer open.Close()
	t := tar.NewReader(open)
	for range maxEntries {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is no tar archive, or damaged: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if done, err := f(h, t); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("it has more than %d files", maxEntries)
}

func hasDockerIndex(file string) (found bool, err error) {
	err = eachFile(file, func(h *tar.Header, _ io.Reader) (bool, error) {
		found = path.Clean(h.Name) == dockerIndex
		return found, nil
	})
	return found, err
}

// unpackLayout writes the files of an OCI layout, and no others, below a directory. A blob is named
// by its digest.
func unpackLayout(file, dir string) error {
	left := int64(maxSize)
	return eachFile(file, func(h *tar.Header, r io.Reader) (bool, error) {
		name := path.Clean(h.Name)
		blob := false
		if ok, err := path.Match("blobs/sha256/*", name); err != nil {
			return false, err
		} else if ok {
			_, err := v1.NewHash("sha256:" + path.Base(name))
			blob = err == nil
		}
		if !blob && name != layoutIndex && name != layoutMarker {
			return false, nil
		}
		if left -= h.Size; left < 0 {
			return false, errTooLarge
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return false, err
		}
		f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return false, err
		}
		_, err = io.Copy(f, r)
		return false, errors.Join(err, f.Close())
	})
}

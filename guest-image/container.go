package guestimage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"pvdrm/guest-image/oci"
)

// containerDir is the folder of the cache with the disks of container images.
const containerDir = "oci"

// containerConfig is the file with what a container image says of its programs.
const containerConfig = "config.json"

// container returns the disk with the files of the kind's container image, making it where the cache
// does not have it.
func (b *builder) container(ctx context.Context) (disk string, config oci.Config, err error) {
	fail := func(err error) (string, oci.Config, error) {
		return "", oci.Config{}, fmt.Errorf("container image %s: %w", b.kind.oci, err)
	}
	// What an archive is unpacked to goes with the next builder if this one is killed.
	tmp, err := os.MkdirTemp(b.dir, newDirPrefix)
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(tmp)
	image, err := oci.Open(ctx, b.kind.oci, tmp)
	if err != nil {
		return fail(err)
	}
	defer image.Close()
	digest, err := image.Digest()
	if err != nil {
		return fail(err)
	}
	dir := filepath.Join(b.dir, containerDir, digest)
	if _, err := os.Stat(dir); err != nil {
		b.progress("Unpacking the container image %s", b.kind.oci)
		if err := replaceDir(dir, func(tmp string) error { return writeContainer(ctx, tmp, image) }); err != nil {
			return fail(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, containerConfig))
	if err == nil {
		config, err = oci.ReadConfig(text)
	}
	if err != nil {
		return fail(fmt.Errorf("damaged cache, remove %s: %w", dir, err))
	}
	touch(dir)
	b.prune(filepath.Join(b.dir, containerDir), keepImages)
	return filepath.Join(dir, diskImage), config, nil
}

// writeContainer fills the folder of a container image.
func writeContainer(ctx context.Context, dir string, image *oci.Image) error {
	config, err := image.Config()
	if err != nil {
		return err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, containerConfig), text, 0o644); err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, diskImage), 0o644, func(f *os.File) error { return image.WriteEROFS(ctx, f) })
}

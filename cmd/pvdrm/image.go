package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	guestimage "pvdrm/guest-image"
)

func newImage(*global) *cobra.Command {
	var cache, kind string
	c := &cobra.Command{
		Use:   "image",
		Short: "Build, show or remove the guest image",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&cache, "cache", guestimage.DefaultCacheDir(), "directory for images")
	build := &cobra.Command{
		Use:   "build",
		Short: "Build the image unless it is there, and print where its files are",
		Long: `Build the guest image: Debian's kernel of this host's suite with the modules that
a paravirtual GPU needs, and an initramfs with PVDRM's init, gdev and a small
shell. It is cached by the hash of what it is made from. The image debian has
Debian's C and C++ libraries and PVDRM's libcuda.so.1 and libcudart.so too, the
image mesa has Debian's Mesa beside these; what is Debian's lies on a disk, read-only.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			i, err := buildImage(c.Context(), cache, kind)
			if err != nil {
				return err
			}
			const mib = 1 << 20
			_, err = fmt.Fprintf(c.OutOrStdout(), "release  %s\nkernel   %s\nvmlinuz  %s\ninitrd   %s\ndisk     %s\nkey      %s\nsize     %.1f MiB\n",
				i.Release, i.Kernel, i.Vmlinuz, i.Initrd, cmp.Or(i.Disk, "none"), i.Key, float64(i.Size)/mib)
			return err
		},
	}
	build.Flags().StringVar(&kind, "image", guestimage.Base, "image to build: "+strings.Join(guestimage.Kinds(), ", "))
	c.AddCommand(build, &cobra.Command{
		Use:   "clean",
		Short: "Remove all cached images and packages",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			// By name: the directory may have been given by mistake, and hold other things.
			for _, name := range []string{"resolved.json", "deb", "image", "build"} {
				if err := os.RemoveAll(filepath.Join(cache, name)); err != nil {
					return fmt.Errorf("removing from the cache: %w", err)
				}
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), "removed images and packages from", cache)
			return err
		},
	})
	return c
}

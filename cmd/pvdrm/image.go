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
		Short: "Build, show or remove guest images",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&cache, "cache", guestimage.DefaultCacheDir(), "directory for images")
	build := &cobra.Command{
		Use:   "build",
		Short: "Build the image if it is missing, and print the paths of its files",
		Long: `Build the guest image: the kernel of this host's distribution with the modules that
a paravirtual GPU needs, and an initramfs with PVDRM's init, gdev and a small
shell. The cache keeps it by the hash of its inputs. The image debian also has the
distribution's C and C++ libraries and PVDRM's libcuda.so.1, libcudart.so,
libnvidia-ml.so.1 and libgloop.so; the image mesa also has the distribution's Mesa.
These files lie on a read-only disk.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			i, err := buildImage(c.Context(), cache, kind, false, false)
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

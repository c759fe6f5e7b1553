package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"pvdrm/drm"
	"pvdrm/hypercall"
)

// version of the release; set by the Makefile from the Git description.
var version = "devel"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of pvdrm, its protocol and its user API",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v := version
			if info, ok := debug.ReadBuildInfo(); ok && v == "devel" {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v += " " + s.Value[:min(len(s.Value), 12)]
					}
				}
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "pvdrm %s\nring protocol %d.%d\nDRM user API %d.%d\n%s %s/%s\n",
				v, hypercall.VersionMajor, hypercall.VersionMinor, drm.DriverMajor, drm.DriverMinor,
				runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// global holds the flags that every command has.
type global struct {
	logLevel string
	logJSON  bool
}

func newRoot() *cobra.Command {
	g := &global{}
	root := &cobra.Command{
		Use:   "pvdrm",
		Short: "A GPU for virtual machines, shared at the Linux DRM boundary",
		Long: `pvdrm gives virtual machines a paravirtual GPU without passthrough, SR-IOV or
changes to guest kernel and QEMU. The GPU is a software one that runs PTX, so
everything works on any machine; with --device cuda it is an NVIDIA GPU.

  pvdrm up -- gdev run --all     boot a virtual machine and run the Gdev suite in it
  pvdrm run -- gdev run --all    run it on the host, as a local guest
  pvdrm doctor                   check what this machine has and lacks

Exit codes: that of the program which was run, 2 for a wrong command line, 125
when pvdrm itself failed.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q", args[0])}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().StringVar(&g.logLevel, "log", "warn", "least severe log messages shown on standard error: debug, info, warn or error")
	root.PersistentFlags().BoolVar(&g.logJSON, "log-json", !term.IsTerminal(int(os.Stderr.Fd())), "log as JSON, one object a line (default: when standard error is no terminal)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newUp(g), newRun(g), newBench(g), newBenchNative(), newBackend(g), newBackendServe(g), newArbiter(g), newImage(g), newScreenshot(), newView(g), newStats(), newTop(), newTrace(g), newCheck(), newDoctor(), newSandboxProbe(), newVersion())
	root.AddCommand(newVirglProcesses()...)
	for _, k := range deviceKinds {
		if k.commands != nil {
			root.AddCommand(k.commands()...)
		}
	}
	argumentsAreUsage(root)
	return root
}

// argumentsAreUsage makes wrong arguments of the commands below a command usage errors, which show how it is called.
func argumentsAreUsage(parent *cobra.Command) {
	for _, c := range parent.Commands() {
		argumentsAreUsage(c)
		if inner := c.Args; inner != nil {
			c.Args = func(c *cobra.Command, args []string) error {
				if err := inner(c, args); err != nil {
					return usageError{fmt.Errorf("%w; usage: %s", err, c.UseLine())}
				}
				return nil
			}
		}
	}
}

// logger makes the logger that the flags ask for. Logs go to standard error.
func (g *global) logger() (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(g.logLevel)
	if err != nil {
		return nil, usageError{fmt.Errorf("--log: %w", err)}
	}
	var enc zapcore.Encoder
	if g.logJSON {
		enc = zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	} else {
		c := zap.NewDevelopmentEncoderConfig()
		c.EncodeLevel = zapcore.CapitalLevelEncoder
		c.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		c.EncodeCaller = nil
		c.CallerKey = ""
		enc = zapcore.NewConsoleEncoder(c)
	}
	core := zapcore.NewCore(enc, zapcore.Lock(os.Stderr), level)
	return zap.New(core), nil
}

// needProgram is the Args function of commands that run a program.
func needProgram(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name the program to run: " + c.Use)
	}
	return nil
}

package main

import (
	"errors"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/gpu"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/bench/clang"
	"pvdrm/internal/bench/direct"
	"pvdrm/internal/bench/micro"
	"pvdrm/internal/bench/opencl"
	"pvdrm/internal/suite"
)

// benchNative is the subcommand that serves the native mode of bench.
const benchNative = "bench-native"

// newBenchNative makes the command behind the native mode of bench: a process
// in which programs are linked straight onto the device.
func newBenchNative() *cobra.Command {
	var dev deviceFlags
	var library string
	var onOpenCL bool
	c := &cobra.Command{
		Use:    benchNative,
		Short:  "Serve pvdrm bench: run programs on the device itself",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case library != "":
				k, err := clang.Open(library, runtime.NumCPU())
				if err != nil {
					return err
				}
				return servePrograms("", k.Device)
			case onOpenCL:
				p, err := opencl.Open()
				if err != nil {
					return err
				}
				return servePrograms(p.Version+", "+p.Processor, p.Device)
			}
			device, err := dev.open(zap.NewNop(), dev.connect)
			if err != nil {
				return err
			}
			programs, err := dev.device.kind().programs(device, dev.device.number)
			if err != nil {
				return errors.Join(err, device.Close())
			}
			// Not on the main goroutine: that one is bound to its thread (see main), and
			// each time it gives way, as waiting does, threads would have to change.
			served := make(chan error)
			go func() { served <- agent.Serve(os.Stdin, os.Stdout, nativeHandler(device, programs)) }()
			return errors.Join(<-served, device.Close())
		},
	}
	dev.add(c)
	c.Flags().StringVar(&library, "kernels", "", "run programs with the kernels of this library, without a device")
	c.Flags().BoolVar(&onOpenCL, "opencl", false, "run programs on PoCL, without a device")
	return c
}

// servePrograms runs programs on devices that open opens, without any of PVDRM. The agent
// tells the name of them.
func servePrograms(name string, open func() (suite.RawDevice, error)) error {
	served := make(chan error)
	go func() { // not on the main goroutine; see newBenchNative
		served <- agent.Serve(os.Stdin, os.Stdout, func(req agent.Request) (agent.Answer, error) {
			if req.Hello {
				h := agent.Here()
				h.Device = name
				return agent.Answer{Hello: &h}, nil
			}
			res, err := suite.RunRaw(req.Bench, open, options(req))
			return agent.Answer{Result: &res}, err
		})
	}()
	return <-served
}

// options are those of the program that is asked for.
func options(req agent.Request) suite.Options {
	return suite.Options{Scale: req.Scale, Trial: req.Trial, Apart: req.Apart, Known: req.Known}
}

// openOn opens a DRM file on a device.
func openOn(device gpu.Device) (drm.File, error) {
	f, err := native.Open(device, "bench")
	if err != nil {
		return nil, err // not a nil *native.File inside of an interface
	}
	return f, nil
}

// nativeHandler serves requests in this process: micro-benchmarks on the device,
// which stays open from run to run as that of a backend does, and programs by
// another function.
func nativeHandler(device gpu.Device, run programs) programs {
	return func(req agent.Request) (a agent.Answer, err error) {
		switch {
		case req.Hello:
			h := agent.Here()
			h.Device = device.Properties().Name
			a.Hello = &h
			return a, nil
		case req.Micro:
			a.Micro, err = micro.Run(micro.Target{Open: func() (drm.File, error) { return openOn(device) }, Budget: req.Budget})
			return a, err
		}
		return run(req)
	}
}

// onDevice runs programs on a device, with nothing between.
func onDevice(device gpu.Device) programs {
	return func(req agent.Request) (a agent.Answer, err error) {
		drv, err := cuda.Init(func() (drm.File, error) { return openOn(device) })
		if err == nil {
			err = drv.Close() // the program opens its own file, in its own time
		}
		if err != nil {
			return a, err
		}
		before := device.Stats()
		res, err := suite.Run(drv, req.Bench, options(req))
		after := device.Stats()
		a.Result = &res
		a.DeviceSeconds = (after.ComputeBusy - before.ComputeBusy + after.CopyBusy - before.CopyBusy).Seconds()
		return a, err
	}
}

// onDriver runs programs on NVIDIA's driver. The device works about as long as they
// wait for it.
func onDriver(number int) (programs, error) {
	driver, err := direct.Load()
	if err != nil {
		return nil, err
	}
	return func(req agent.Request) (agent.Answer, error) {
		res, err := suite.RunRaw(req.Bench, driver.Opener(number), options(req))
		p := res.Seconds
		return agent.Answer{Result: &res, DeviceSeconds: p.HtoD + p.Launch + p.DtoH}, err
	}, nil
}

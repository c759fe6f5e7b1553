package main

import (
	"context"
	"errors"
	"time"

	"pvdrm/internal/bench"
	"pvdrm/internal/bench/cmicro"
	"pvdrm/internal/bench/micro"
)

// driverPlace runs micro-benchmarks in C on the driver of an NVIDIA GPU. Where that
// is not possible the report says why.
type driverPlace struct {
	number int           // of the GPU
	budget time.Duration // of each micro-benchmark
	report *bench.Report
}

// Series implements bench.Place.
func (driverPlace) Series() bench.Series {
	return bench.Series{Mode: bench.Driver, Config: bench.Full}
}

// Run implements bench.Place.
func (driverPlace) Run(context.Context, string, int) (bench.Sample, error) {
	return bench.Sample{}, errors.New("there are no programs in C")
}

// Micro implements bench.Place.
func (p driverPlace) Micro(ctx context.Context) (results []micro.Result, err error) {
	dir, err := newRunDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.remove()) }()
	results, failed := cmicro.Run(ctx, dir.path(""), p.number, p.budget)
	if failed != nil && ctx.Err() == nil {
		p.report.Header.Facts = append(p.report.Header.Facts, bench.Fact{Name: "C on the driver", Value: "left out: " + failed.Error()})
		return nil, nil
	}
	return results, errors.Join(failed, ctx.Err())
}

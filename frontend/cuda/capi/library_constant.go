package capi

import (
	"errors"
	"sync"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/cudalibs"
)

// constants are answers that the host's libraries always give alike: versions and texts. Programs ask for
// them before cuInit, without a context, and when theirs is gone. The zero value has none.
type constants struct {
	mu    sync.Mutex // one thread at a time asks
	known map[constantKey]constant
}

// constantKey is what a program asks for.
type constantKey struct {
	function uint32
	arg      uint32 // which property, or status
}

// constant is an answer.
type constant struct {
	returned uint64
	text     string
	wrote    []byte
	err      error // the host has none
}

const (
	maxConstants = 1 << 12
	properties   = 3 // parts of a version, by number
)

// constant answers a function that needs no context: in the current one, or where none works from what is
// known.
func (m *libraryMaker) constant() (uint64, error) {
	key, to := constantKey{function: m.f.Index}, uint64(0)
	for i, p := range m.f.Params {
		switch v := m.args[i]; {
		case p.Class == cudalibs.Int32:
			key.arg = uint32(v)
		case p.Class == cudalibs.Out && v == 0, p.Class == cudalibs.Null && v != 0:
			return 0, m.c.fail(cuda.ErrInvalidValue, "argument %d is 0x%x", i+1, v)
		case p.Class == cudalibs.Out:
			to = v
		}
	}
	if x, err := m.c.current(); err == nil && !x.isEnded() {
		returned, err := m.call()
		if err == nil || !lostContext(err) {
			return returned, err
		}
	}
	a, err := m.c.lib.constants.answer(m.c, m.f, key)
	switch {
	case err != nil:
		return uint64(m.f.Library.Codes.Unsupported), err
	case m.f.Mode == cudalibs.Text:
		return m.c.lib.text(a.text), nil
	case to != 0 && a.returned == 0:
		return 0, m.c.lib.cfg.Memory.Write(to, a.wrote)
	}
	return a.returned, nil
}

// lostContext reports whether a call failed for its context, and not for what the call was.
func lostContext(err error) bool {
	var r cuda.Result
	return errors.As(err, &r) && r != cuda.ErrNotSupported && r != cuda.ErrInvalidValue
}

// answer finds an answer, or asks for it. A context that is made only to ask is used to ask for what
// comes next, too, since it takes long to make.
func (k *constants) answer(c *call, f *cudalibs.Function, key constantKey) (constant, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a, ok := k.known[key]; ok {
		return a, a.err
	}
	var a constant
	err := c.inAnyContext(func(x *cuda.Context) (err error) {
		if a, err = askConstant(x, f, key); err != nil {
			return err
		}
		k.keep(key, a)
		k.askVersions(x)
		return nil
	})
	if err != nil {
		return a, err
	}
	return a, a.err
}

func (k *constants) keep(key constantKey, a constant) {
	if k.known == nil {
		k.known = map[constantKey]constant{}
	}
	if len(k.known) < maxConstants {
		k.known[key] = a
	}
}

// askVersions asks for the versions of all libraries.
func (k *constants) askVersions(x *cuda.Context) {
	for _, f := range cudalibs.All().Functions {
		if !f.Constant || f.Mode == cudalibs.Text || x.Device().Libraries()&(1<<f.Library.Number) == 0 {
			continue
		}
		n := uint32(1)
		if len(f.Params) > 0 && f.Params[0].Class == cudalibs.Int32 {
			n = properties
		}
		for arg := range n {
			key := constantKey{function: f.Index, arg: arg}
			if _, ok := k.known[key]; ok {
				continue
			}
			a, err := askConstant(x, f, key)
			if err != nil {
				return // who needs it asks again
			}
			k.keep(key, a)
		}
	}
}

// askConstant asks the host in a context. That the host cannot answer is an answer, too.
func askConstant(x *cuda.Context, f *cudalibs.Function, key constantKey) (a constant, err error) {
	args := make([]uint64, len(f.Params))
	for i, p := range f.Params {
		switch p.Class {
		case cudalibs.Int32:
			args[i] = uint64(key.arg)
		case cudalibs.Out:
			args[i] = 1 // not null: it is written below, if at all
		}
	}
	made, err := f.Encode(args, nil) // no parameter of a constant needs the program
	if err != nil {
		return a, err
	}
	answer, err := x.AskLibrary(cuda.LibraryCall{Name: f.Name, Function: f.Index, Args: batchOf(made.Record)}, made.Results)
	if errors.Is(err, cuda.ErrNotSupported) {
		a.err = err
		return a, nil
	}
	if err != nil {
		return a, err
	}
	b, err := answer.Await()
	if err != nil {
		return a, err
	}
	head := cudalibs.ReadHead(b)
	if head.Refused() {
		a.err = &cuda.Error{Call: f.Name, Result: cuda.ErrNotSupported, Err: head.Reason()}
		return a, nil
	}
	if a.returned = uint64(head.Status); f.Mode == cudalibs.Number {
		a.returned = head.Returned
	}
	if f.Mode == cudalibs.Text {
		a.text, _ = textOf(b)
	}
	for _, out := range made.Outputs {
		a.wrote = b[out.At:][:out.Bytes]
	}
	return a, nil
}

// inAnyContext runs a function with a context of the program that works, or with one that is made for it and
// destroyed: what the program has then is as before.
func (c *call) inAnyContext(do func(*cuda.Context) error) error {
	for _, x := range c.lib.allContexts() {
		if do(x.Context) == nil {
			return nil
		}
	}
	d := c.lib.driver.Load()
	if d == nil {
		var err error
		if d, err = c.openDriver(); err != nil {
			return err
		}
		defer func() { _ = d.Close() }() // the answer is there, or the error that matters
	}
	dev, err := d.Device(0)
	if err != nil {
		return err
	}
	x, err := dev.CreateContext()
	if err != nil {
		return err
	}
	defer func() { _ = x.Destroy() }() // likewise
	return do(x)
}

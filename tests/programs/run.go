package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxOutput bounds the output of a program that is kept: its beginning and its end.
const maxOutput = 1 << 20

// grace is how long a program and its device have to end after SIGTERM.
const grace = 5 * time.Second

// runner runs programs one after the other.
type runner struct {
	bin, src, out string
	pvdrm, sm     string
	args          []string // of pvdrm run
	limit         time.Duration
}

// suite runs the programs of a list whose names match, and adds to its results.
func (r *runner) suite(ctx context.Context, l *list, wanted *regexp.Regexp, again bool) (map[string]result, error) {
	dir := filepath.Join(r.out, l.suite)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file := dir + ".txt"
	results, err := readResults(file)
	if err != nil {
		return nil, err
	}
	for i := range l.programs {
		p := &l.programs[i]
		if _, done := results[p.name]; done && !again || !wanted.MatchString(p.name) {
			continue
		}
		res := result{outcome: excluded, why: p.reason}
		if p.judge != isExcluded {
			if res, err = r.program(ctx, l, p, dir); err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
		}
		fmt.Printf("%s\t%s\t%.1f s\t%s\n", p.name, res.outcome, res.took.Seconds(), res.why)
		results[p.name] = res
		if err := writeResults(file, l, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// program runs one program in a folder of its own, and keeps its output in dir.
func (r *runner) program(ctx context.Context, l *list, p *program, dir string) (result, error) {
	work, err := r.workplace(l, p)
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(work.top) // what the system does not delete now it does at its next start
	start := time.Now()
	e, err := r.execute(ctx, work.dir, p.command)
	if err != nil {
		return result{}, err
	}
	res := result{took: time.Since(start)}
	res.outcome, res.why = p.verdict(e)
	return res, os.WriteFile(filepath.Join(dir, p.name+".out"), []byte(e.output), 0o644)
}

// workplace is the folder that a program runs in, below a temporary one.
type workplace struct{ top, dir string }

// workplace copies the program's folder, its binary and its files. The folder's
// neighbours are linked, since commands name inputs in them.
func (r *runner) workplace(l *list, p *program) (workplace, error) {
	top, err := os.MkdirTemp("", "programs-")
	if err != nil {
		return workplace{}, err
	}
	w := workplace{top: top, dir: filepath.Join(top, l.folder, p.folder)}
	source := filepath.Join(r.src, l.suite, l.folder, p.folder)
	binary := strings.ReplaceAll(l.binary, "NAME", p.name)
	from := filepath.Join(r.bin, l.suite, p.name)
	steps := []func() error{
		func() error { return os.MkdirAll(w.dir, 0o755) },
		func() error { return linkNeighbours(filepath.Dir(source), filepath.Dir(w.dir)) },
		func() error { return copyFolder(w.dir, source) }, // a source may be one file in a suite's folder
		func() error { return copyProgram(from, filepath.Join(w.dir, binary)) },
		func() error { return copyFolder(w.dir, from+".files") }, // most builds make only the binary
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return workplace{}, errors.Join(err, os.RemoveAll(top))
		}
	}
	return w, nil
}

// copyFolder copies what is in a folder, if there is one.
func copyFolder(to, from string) error {
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return os.CopyFS(to, os.DirFS(from))
}

// linkNeighbours links what is in one folder from another that has some of it.
func linkNeighbours(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// copyProgram copies an executable; a folder of the sources may have a file of its name.
func copyProgram(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// execute runs a command as a local guest.
func (r *runner) execute(ctx context.Context, dir, command string) (ending, error) {
	limited, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	cmd := exec.CommandContext(limited, r.pvdrm, slices.Concat([]string{"run", "--sm", r.sm}, r.args, []string{"--", "bash", "-ec", command})...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PVDRM_CUDA_LOG=errors")
	var out keeper
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	if cmd.Process != nil && limited.Err() != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // those that are left, if any
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ending{}, ctx.Err()
	case limited.Err() != nil:
		return ending{timedOut: true, output: out.String()}, nil
	case err != nil && !errors.As(err, &exit):
		return ending{}, err
	}
	e := ending{code: cmd.ProcessState.ExitCode(), output: out.String()}
	if st, isWait := cmd.ProcessState.Sys().(syscall.WaitStatus); isWait && st.Signaled() {
		e.code = signalled + int(st.Signal())
	}
	return e, nil
}

// keeper keeps the beginning and the end of what is written to it.
type keeper struct{ head, tail bytes.Buffer }

// Write takes everything.
func (k *keeper) Write(b []byte) (int, error) {
	n := min(len(b), maxOutput-k.head.Len())
	k.head.Write(b[:n])
	k.tail.Write(b[n:])
	if more := k.tail.Len() - 2*maxOutput; more > 0 {
		k.tail.Next(k.tail.Len() - maxOutput)
	}
	return len(b), nil
}

// String returns what is kept.
func (k *keeper) String() string { return k.head.String() + k.tail.String() }

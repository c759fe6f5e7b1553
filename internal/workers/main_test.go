package workers_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/workers"
)

// The test binary is its own keeper and worker. The environment names the role, and is the guard:
// those run no tests.
const roleEnv = "PVDRM_TEST_WORKERS"

// Roles of workers, which keepers start as "keeper:ROLE".
const (
	roleEcho = "echo" // answers what it reads, until the end of the stream
	roleExit = "exit" // ends with status 3
	roleNone = "none" // cannot be started
	rolePipe = "pipe" // copies descriptor 4 to its socket
)

// Roles of keepers of their own.
const (
	roleUnprepared = "unprepared" // cannot prepare workers
	roleTwo        = "two"        // starts at most two workers
	roleGuarded    = "guarded"    // its Guard refuses each worker
	roleHostile    = "hostile:"   // sends what its name says, whatever it is asked
	roleSlow       = "slow:"      // reads nothing until there is a file of the name that follows
)

func init() { runtime.LockOSThread() } // for TestMain, which may become a keeper

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	if of, ok := strings.CutPrefix(role, "keeper:"); ok {
		end(workers.Serve(program(of)))
	}
	if attack, ok := strings.CutPrefix(role, roleHostile); ok {
		end(workers.Attack(attack))
	}
	if file, ok := strings.CutPrefix(role, roleSlow); ok {
		for _, err := os.Stat(file); err != nil; _, err = os.Stat(file) {
			time.Sleep(time.Millisecond)
		}
		end(workers.Serve(program(roleEcho)))
	}
	switch role {
	case roleUnprepared:
		end(workers.Serve(workers.Program{Prepare: func() (workers.Equipment, error) {
			return workers.Equipment{}, errors.New(strings.Repeat("no equipment ", 1000))
		}}))
	case roleGuarded:
		p := program(roleEcho)
		p.Prepare = func() (workers.Equipment, error) {
			return workers.Equipment{Guard: func() error { return errors.New("it is not liked (a test)") }}, nil
		}
		end(workers.Serve(p))
	case roleTwo:
		p := program(roleEcho)
		p.Most = 2
		end(workers.Serve(p))
	case roleEcho:
		echo(workers.Socket)
	case rolePipe:
		echo(workers.Socket + 1)
	case roleExit:
		os.Exit(3)
	}
	os.Exit(1)
}

// program starts workers of a role.
func program(role string) workers.Program {
	switch role {
	case roleNone:
		return workers.Program{Command: []string{"/nonexistent/worker"}}
	case rolePipe:
		return workers.Program{Command: command(role), Prepare: func() (e workers.Equipment, err error) {
			r, w, err := os.Pipe()
			return workers.Equipment{Worker: []*os.File{r}, Backend: []*os.File{w, r}}, err
		}}
	}
	return workers.Program{Command: command(role)}
}

// command starts this binary in a role.
func command(role string) []string {
	return []string{"/usr/bin/env", roleEnv + "=" + role, os.Args[0]}
}

// echo writes what it reads to the socket.
func echo(from int) {
	b := make([]byte, 100)
	for {
		n, err := unix.Read(from, b)
		if err != nil || n == 0 {
			os.Exit(0)
		}
		_, _ = unix.Write(workers.Socket, b[:n]) // the test misses what is lost
	}
}

// end ends this process.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

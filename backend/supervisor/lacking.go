package supervisor

import (
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"pvdrm/backend/sandbox"
)

// lacking has the confinement that a host refused a child; nil fields were granted.
type lacking struct{ namespaces, root, identity, group error }

// start takes what sandbox.Start was refused.
func (l *lacking) start(refused error) {
	if errors.Is(refused, sandbox.ErrNamespaces) {
		l.namespaces = refused
	}
	if errors.Is(refused, sandbox.ErrIdentity) {
		l.identity = refused
	}
}

// message says in one line what is missing and what still separates the child from others. A host
// without control groups only gets no warning: they bound what guests take from each other, not what
// they reach.
func (l *lacking) message() (zapcore.Level, string, []zapcore.Field) {
	var missing []string
	separates := []string{"seccomp"}
	var fields []zapcore.Field
	for _, part := range []struct {
		key   string // of the field with the reason
		name  string
		err   error
		given bool // if there is no error
	}{
		{key: "namespaces", name: "namespaces of its own", err: l.namespaces, given: true},
		{key: "root", name: "a root directory of its own", err: l.root, given: l.namespaces == nil},
		{key: "user", name: "a user of its own", err: l.identity, given: true},
		{key: "cgroup", name: "a control group", err: l.group, given: true},
	} {
		switch {
		case part.err != nil:
			missing = append(missing, part.name)
			fields = append(fields, zap.String(part.key, Escape(part.err.Error())))
		case part.given:
			separates = append(separates, part.name)
		}
	}
	fields = append(fields, zap.String("separated_by", strings.Join(separates, ", ")))
	switch {
	case missing == nil:
		return zapcore.DebugLevel, "the backend is confined", fields
	case l.namespaces == nil && l.root == nil && l.identity == nil:
		return zapcore.InfoLevel, "the backend has no control group", fields
	}
	return zapcore.WarnLevel, "the backend goes without " + strings.Join(missing, ", "), fields
}

// FailedError is why a child ended, in its own words, which are escaped.
type FailedError struct {
	Code int // exit code that it asks for; it may be any
	Text string
}

// Error implements error.
func (e *FailedError) Error() string { return e.Text }

// CrashError is the end of a child whose program crashed.
type CrashError struct {
	Exit   error  // the process's
	Cause  string // the last words of its program, escaped
	Memory uint64 // bytes that it might have
}

// Error implements error.
func (e *CrashError) Error() string {
	text := fmt.Sprintf("%v, %s", e.Exit, e.Cause)
	if strings.Contains(e.Cause, "memory") {
		text += fmt.Sprintf("; its quotas let it have %d MiB, see --quota", e.Memory>>20)
	}
	return text
}

// Unwrap returns how the process ended.
func (e *CrashError) Unwrap() error { return e.Exit }

package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// namer writes the numbers that stand for something.
type namer interface {
	name(file uint32, k Kind, v uint64) string
}

// raw writes them as they are.
type raw struct{}

func (raw) name(_ uint32, k Kind, v uint64) string {
	if k == KindAddress {
		return fmt.Sprintf("0x%x", v)
	}
	return strconv.FormatUint(v, 10)
}

// errnoName is the name of an errno, such as "EINVAL".
func errnoName(e syscall.Errno) string {
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	return fmt.Sprintf("errno %d", int(e))
}

// text is the event as a line, without its times.
func (e *Event) text(n namer) string {
	var b strings.Builder
	info, _ := e.Op.Info()
	fmt.Fprintf(&b, "file %d %s(", e.File, e.name())
	parts := e.fields(n, info.In, e.In)
	for i, s := range e.InBytes {
		parts = append(parts, info.InBytes[i]+"="+e.describe(n, info.InBytes[i], s))
	}
	b.WriteString(strings.Join(parts, ", "))
	b.WriteString(")")
	if e.Errno != 0 {
		b.WriteString(" = " + errnoName(e.Errno))
	} else if out := e.fields(n, info.Out, e.Out); len(out) > 0 {
		b.WriteString(" = " + strings.Join(out, ", "))
	}
	for i, s := range e.OutBytes {
		if len(s) > 0 {
			b.WriteString(", " + info.OutBytes[i] + "=" + e.describe(n, info.OutBytes[i], s))
		}
	}
	return b.String()
}

func (e *Event) fields(n namer, fields []Field, values []uint64) (parts []string) {
	for i, f := range fields {
		v := ""
		switch f.Kind {
		case KindTime:
			v = time.Duration(values[i]).String()
		case KindFlags:
			v = fmt.Sprintf("0x%x", values[i])
		case KindNumber, KindBytes:
			v = strconv.FormatUint(values[i], 10)
		default:
			v = n.name(e.File, f.Kind, values[i])
		}
		parts = append(parts, f.Name+"="+v)
	}
	return parts
}

// describe is a byte string for people: decoded where it has a form, quoted where
// it is a short text, and by its length and hash otherwise.
func (e *Event) describe(n namer, what string, s []byte) string {
	switch what {
	case "operations":
		return e.describeBinds(n, s)
	case "commands":
		l := lister{e: e, n: n}
		if _, err := drm.WalkCommands(s, &l); err != nil {
			l.add("malformed: %v", err)
		}
		return "[" + strings.Join(l.parts, "; ") + "]"
	case "waits":
		var parts []string
		for _, p := range points(s) {
			parts = append(parts, n.name(e.File, KindChannel, uint64(p.Channel))+":"+n.name(e.File, KindSeqno, p.Seqno))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case "syncobjs", "after", "signals":
		var parts []string
		for _, h := range handles(s) {
			parts = append(parts, n.name(e.File, KindSyncobj, uint64(h)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case "name", "description", "text", "log":
		const most = 200
		if len(s) > most {
			s = s[:most]
		}
		return strconv.Quote(string(s))
	case "argument":
		return describeArgument(drm.Request(e.In[0]), s)
	case "hashes", "params":
		return fmt.Sprintf("%x", s)
	}
	return fmt.Sprintf("<%d bytes, %016x>", len(s), pageHash(s))
}

// name is what the event is called: for an ioctl of which nothing else was
// recorded, with its own name.
func (e *Event) name() string {
	if e.Op != OpIoctl {
		return e.Op.String()
	}
	if known, ok := drm.Lookup(drm.Request(e.In[0])); ok {
		return "IOCTL " + known.Name
	}
	return "IOCTL"
}

// describeArgument is the argument of an ioctl by the struct in its row of drm.Table, or its bytes
// where they are another struct.
func describeArgument(req drm.Request, s []byte) string {
	row, ok := drm.Lookup(req)
	if !ok || len(s) < int(row.Argument.Size()) {
		return fmt.Sprintf("%x", s)
	}
	arg := reflect.New(row.Argument).Elem()
	if _, err := binary.Decode(s, binary.LittleEndian, arg.Addr().Interface()); err != nil {
		return fmt.Sprintf("%x", s)
	}
	var parts []string
	for i := range arg.NumField() {
		if name := row.Argument.Field(i).Name; name != "_" && name != "Pad" {
			parts = append(parts, fmt.Sprintf("%s=%v", name, arg.Field(i)))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (e *Event) describeBinds(n namer, s []byte) string {
	ops, err := bindOps(s)
	if err != nil {
		return "malformed"
	}
	var parts []string
	for _, op := range ops {
		at := fmt.Sprintf("%s+0x%x", n.name(e.File, KindAddress, op.Addr), op.Range)
		if op.Op == drm.BindUnmap {
			parts = append(parts, "unmap "+at)
			continue
		}
		parts = append(parts, fmt.Sprintf("map %s = %s+0x%x", at, n.name(e.File, KindHandle, uint64(op.Handle)), op.BOOffset))
	}
	return "[" + strings.Join(parts, "; ") + "]"
}

// lister is a drm.CommandSink that describes commands.
type lister struct {
	e     *Event
	n     namer
	parts []string
}

func (l *lister) add(format string, args ...any) {
	l.parts = append(l.parts, fmt.Sprintf(format, args...))
}

func (l *lister) addr(a uint64) string { return l.n.name(l.e.File, KindAddress, a) }

func (l *lister) Copy(c drm.CopyCmd) error {
	l.add("copy %s <- %s, %d x %d", l.addr(c.Dst), l.addr(c.Src), c.Width, c.Height)
	return nil
}

func (l *lister) Fill(c drm.FillCmd) error {
	l.add("fill %s with 0x%x/%d, %d x %d", l.addr(c.Dst), c.Pattern, c.Size, c.Width, c.Height)
	return nil
}

func (l *lister) Task() error {
	l.add("task")
	return nil
}

func (l *lister) Timestamp(c drm.TimestampCmd) error {
	l.add("timestamp %s", l.addr(c.Addr))
	return nil
}

func (l *lister) Word(c drm.WordCmd) error {
	what := [...]string{"write %s", "wait until %s >=", "wait until %s ==", "wait until %s &", "wait until %s nor"}[c.Op]
	l.add(what+" 0x%x/%d", l.addr(c.Addr), c.Value, c.Size)
	return nil
}

func (l *lister) Call(c drm.CallCmd) error {
	l.add("call of library function %d with %d bytes, %d of results at %s", c.Function, int(c.ArgsBytes)+len(c.Args), c.ResultBytes, l.addr(c.Results))
	return nil
}

func (l *lister) Launch(c drm.LaunchCmd) error {
	kind := "launch"
	if c.Cooperative {
		kind = "cooperative launch"
	}
	if c.Cluster != [3]uint32{} {
		kind += fmt.Sprintf(" in clusters %v of", c.Cluster)
	}
	if c.Signal != 0 {
		kind = fmt.Sprintf("yielding %s with the signal %s of", kind, l.addr(c.Signal))
	}
	l.add("%s %s grid %v block %v shared %d params %x", kind, l.n.name(l.e.File, KindFunction, uint64(c.Function)), c.Grid, c.Block, c.SharedBytes, c.Params)
	return nil
}

// Show prints a trace, an event a line.
func Show(r *Reader, out io.Writer) error {
	for {
		e, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		if _, err := fmt.Fprintf(out, "%10.3f ms %8.3f ms  thread %d  %s\n", ms(e.Start), ms(e.Took), e.Thread, e.text(raw{})); err != nil {
			return err
		}
	}
}

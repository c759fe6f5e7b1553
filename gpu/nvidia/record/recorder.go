package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/usernotify"
)

// row is one line of the table, without its count.
type row struct {
	role    string // name of the process
	phase   string // phaseStart or phaseServe
	device  string // such as nvidiactl
	request uint32
	detail  uint32 // of an RM control the command, of an RM allocation the class
}

// Phases of a process.
const (
	phaseStart = "start"
	phaseServe = "serve"
)

// recorder counts calls. One goroutine uses it.
type recorder struct {
	seen    map[row]int
	process map[uint32]int // of each thread
	serving map[int]bool   // processes
	roles   map[int]string // names of processes that serve
	early   map[int][]row  // what processes that do not serve yet were seen to do
}

func newRecorder() *recorder {
	return &recorder{seen: map[row]int{}, process: map[uint32]int{}, serving: map[int]bool{}, roles: map[int]string{}, early: map[int][]row{}}
}

// run runs a program to its end.
func (r *recorder) run(command []string) error {
	type start struct {
		listener usernotify.Listener
		cmd      *exec.Cmd
		err      error
	}
	started := make(chan start)
	go func() {
		// The filter is this thread's, and the program's that it starts. The thread ends with
		// the goroutine.
		runtime.LockOSThread()
		l, err := usernotify.Install(usernotify.Calls([]usernotify.Requests{{}}, unix.SYS_SENDMSG), false)
		if err != nil {
			started <- start{err: err}
			return
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		started <- start{listener: l, cmd: cmd, err: cmd.Start()}
	}()
	s := <-started
	if s.err != nil {
		return s.err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.cmd.Wait() }()
	for {
		var c usernotify.Call
		came, err := s.listener.Receive(&c, 100)
		if err != nil && !errors.Is(err, usernotify.ErrEnded) {
			return err
		}
		if came {
			r.note(&c)
			if err := s.listener.Proceed(&c); err != nil {
				return err
			}
			continue
		}
		select {
		case err := <-ended:
			return errors.Join(err, s.listener.Close())
		default:
		}
	}
}

// note counts a call.
func (r *recorder) note(n *usernotify.Call) {
	pid, known := r.process[n.Thread]
	if !known {
		if pid = processOf(n.Thread); pid == 0 {
			return // it is gone
		}
		r.process[n.Thread] = pid
	}
	if n.Number == unix.SYS_SENDMSG {
		r.begin(pid)
		return
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(n.Args[0])))
	device := strings.TrimPrefix(path, "/dev/")
	if err != nil || !strings.HasPrefix(device, "nvidia") {
		return
	}
	x := row{phase: phaseStart, device: device, request: uint32(n.Args[1])}
	if off, ok := details[x.request&typeAndNumber]; ok {
		x.detail = peek(pid, n.Args[2]+off)
	}
	if !r.serving[pid] {
		r.early[pid] = append(r.early[pid], x)
		return
	}
	x.role, x.phase = r.roles[pid], phaseServe
	r.seen[x]++
}

// begin says that a process serves from now on.
func (r *recorder) begin(pid int) {
	if r.serving[pid] {
		return
	}
	r.serving[pid], r.roles[pid] = true, nameOf(pid)
	r.settle(pid, r.roles[pid])
}

// settle counts what a process did before it had a name.
func (r *recorder) settle(pid int, role string) {
	for _, x := range r.early[pid] {
		x.role = role
		r.seen[x]++
	}
	delete(r.early, pid)
}

// details says where the argument of a request has what tells its meaning.
var details = map[uint32]uint64{
	'F'<<8 | 0x2a: 8,  // NV_ESC_RM_CONTROL: NVOS54_PARAMETERS.cmd
	'F'<<8 | 0x2b: 12, // NV_ESC_RM_ALLOC: NVOS21_PARAMETERS.hClass, and NVOS64's
}

// typeAndNumber are the bits of a request without its direction and size.
const typeAndNumber = 0xffff

// peek reads a word of another process; 0 where it cannot.
func peek(pid int, at uint64) uint32 {
	b := make([]byte, 4)
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 4}}, []unix.RemoteIovec{{Base: uintptr(at), Len: 4}}, 0)
	if err != nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

// processOf is the process of a thread; 0 if there is none.
func processOf(tid uint32) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if id, ok := strings.CutPrefix(line, "Tgid:"); ok {
			pid, _ := strconv.Atoi(strings.TrimSpace(id)) // the kernel writes numbers
			return pid
		}
	}
	return 0
}

// nameOf is the name of a process.
func nameOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "unknown"
	}
	return strings.ReplaceAll(strings.TrimSpace(string(name)), " ", "_")
}

// table is what was seen, as text.
func (r *recorder) table() string {
	for pid := range r.early {
		r.settle(pid, nameOf(pid))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# What NVIDIA's driver was seen to ask its devices for by ioctl. Command gpu/nvidia/record wrote this.\n")
	for _, fact := range []struct{ name, value string }{
		{"driver", firstLine("/proc/driver/nvidia/version")}, {"gpu", model()}, {"kernel", firstLine("/proc/version")},
		{"date", time.Now().UTC().Format(time.DateOnly)},
	} {
		fmt.Fprintf(&b, "# %s: %s\n", fact.name, fact.value)
	}
	b.WriteString("# process phase device request detail (RM control or class) count\n")
	for _, x := range slices.SortedFunc(maps.Keys(r.seen), compare) {
		fmt.Fprintf(&b, "%s %s %s %#x %#x %d\n", x.role, x.phase, x.device, x.request, x.detail, r.seen[x])
	}
	return b.String()
}

func compare(a, b row) int {
	return cmp.Or(strings.Compare(a.role, b.role), strings.Compare(a.phase, b.phase), strings.Compare(a.device, b.device),
		cmp.Compare(a.request, b.request), cmp.Compare(a.detail, b.detail))
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.Join(strings.Fields(line), " ")
}

// model names the first GPU.
func model() string {
	files, err := filepath.Glob("/proc/driver/nvidia/gpus/*/information")
	if err != nil || len(files) == 0 {
		return "unknown"
	}
	return strings.TrimSpace(strings.TrimPrefix(firstLine(files[0]), "Model:"))
}

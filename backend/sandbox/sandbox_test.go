package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/codemem"
)

// inside makes this test binary confine itself and try what the variable names.
const inside = "PVDRM_SANDBOX_TEST"

// The first thread is the one that Shed gave a signal to end by.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	switch what := os.Getenv(inside); what {
	case "":
		os.Exit(m.Run())
	case "root":
		os.Exit(rooted())
	case "identify":
		os.Exit(identify())
	case "identified":
		os.Exit(identified())
	case "middle":
		os.Exit(middle())
	case "bound":
		os.Exit(bound())
	case "bounded":
		os.Exit(bounded())
	case "hello":
		fmt.Print("hello")
	default:
		os.Exit(tryInside(what))
	}
}

// Names of what enters a filter.
var enters = map[string]func() error{
	Backend.String():    Enter,
	Renderer.String():   func() error { return EnterRenderer(nil) },
	Keeper.String():     EnterKeeper,
	CUDAKeeper.String(): EnterCUDAKeeper,

	NVIDIARenderer.String(): func() error { return EnterNVIDIARenderer(nil) },
}

// injected is what an attacker tries in a process that it took over.
type injected struct {
	try     func(held) error
	allowed []Role // who may; what a keeper or a renderer may, that of NVIDIA's may, too
}

// held is what the process has open when it is confined, and whose existence the
// filter cannot help.
type held struct {
	file     *os.File // on disk, writable
	memory   int      // a memfd
	listener *net.UnixListener
}

var attempts = map[string]injected{
	"open a file":           {try: func(held) error { _, err := os.Open("/etc/hostname"); return err }, allowed: []Role{Keeper}},
	"make a directory":      {try: func(held) error { return os.Mkdir("/tmp/pvdrm-sandbox-test", 0o700) }},
	"remove a file":         {try: func(held) error { return unix.Unlink(os.Getenv(inside + "_SOCKET")) }},
	"start a program":       {try: func(held) error { return exec.Command("/bin/true").Run() }, allowed: []Role{Keeper}},
	"make a network socket": {try: func(held) error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err }},
	"make a Unix socket":    {try: func(held) error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err }},
	"listen as cuInit does": {try: func(held) error { // its socket is the next descriptor
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }() // nothing was written
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@pvdrm-test-%d-%d", os.Getpid(), fd)}); err != nil {
			return err
		}
		return unix.Listen(fd, 1)
	}, allowed: []Role{CUDAKeeper}},
	"make a socket pair": {try: func(held) error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		allowed: []Role{Keeper}},
	"connect":               {try: func(held) error { return unix.Connect(-1, &unix.SockaddrUnix{Name: "/none"}) }},
	"bind":                  {try: func(held) error { return unix.Bind(-1, &unix.SockaddrUnix{Name: "/none"}) }, allowed: []Role{CUDAKeeper}},
	"listen":                {try: func(h held) error { return control(h.listener, func(fd int) error { return unix.Listen(fd, 1) }) }, allowed: []Role{CUDAKeeper}},
	"filter a socket":       {try: func(h held) error { return control(h.listener, detachFilter) }},
	"make memory":           {try: func(held) error { _, err := unix.MemfdCreate("m", 0); return err }, allowed: []Role{Keeper}},
	"grow memory":           {try: func(h held) error { return unix.Ftruncate(h.memory, 1<<20) }, allowed: []Role{Keeper}},
	"grow a file":           {try: func(h held) error { return unix.Ftruncate(int(h.file.Fd()), 1<<20) }, allowed: []Role{Keeper}},
	"empty a file":          {try: func(h held) error { return unix.Ftruncate(int(h.file.Fd()), 0) }, allowed: []Role{Keeper}},
	"fill the disk":         {try: func(h held) error { return unix.Fallocate(int(h.file.Fd()), 0, 0, 1<<20) }, allowed: []Role{Keeper}},
	"write to a file's end": {try: func(h held) error { _, err := h.file.Write([]byte("more")); return err }, allowed: []Role{Keeper}},
	"write to memory's end": {try: func(h held) error { _, err := unix.Write(h.memory, []byte("more")); return err }, allowed: []Role{Keeper}},
	"map shared memory":     {try: mapMemory(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON), allowed: []Role{Renderer, Keeper}},
	"map memory as a stack": {try: mapMemory(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_GROWSDOWN)},
	"map memory in place of other": {try: func(held) error {
		m, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return fmt.Errorf("memory: %v", err)
		}
		err = raw(unix.SYS_MMAP, addressOf(m), 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED, ^uintptr(0))(held{})
		if err == unix.ENOMEM {
			err = unix.EPERM // what others get
		}
		return err
	}, allowed: []Role{Renderer, Keeper}},
	"map a private copy of memory": {try: func(h held) error {
		_, err := unix.Mmap(h.memory, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
		return err
	}, allowed: []Role{Renderer, Keeper}},
	"map executable memory": {try: mapMemory(unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON), allowed: []Role{Renderer, Keeper}},
	"make memory writable and executable": {try: func(held) error {
		m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return fmt.Errorf("memory: %v", err) // not what is tried
		}
		return unix.Mprotect(m, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC)
	}, allowed: []Role{Renderer, Keeper}},
	"make shared memory executable": {try: func(h held) error {
		m, err := unix.Mmap(h.memory, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("memory: %v", err)
		}
		return unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC)
	}, allowed: []Role{Renderer, Keeper}},
	"share memory with processes": {try: func(held) error {
		m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return fmt.Errorf("memory: %v", err)
		}
		return unix.Madvise(m, unix.MADV_MERGEABLE)
	}, allowed: []Role{Renderer, Keeper}},
	"have signals sent":       {try: command(unix.F_SETOWN)},
	"lease a file":            {try: command(unix.F_SETLEASE)},
	"watch a directory":       {try: command(unix.F_NOTIFY)},
	"seal memory":             {try: func(h held) error { _, err := unix.FcntlInt(uintptr(h.memory), unix.F_ADD_SEALS, 0); return err }, allowed: []Role{Keeper}},
	"trace another process":   {try: func(held) error { return unix.PtraceAttach(1) }},
	"kill another process":    {try: func(held) error { return unix.Kill(os.Getppid(), 0) }},
	"kill another's thread":   {try: func(held) error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) }, allowed: []Role{Keeper}},
	"reach another process":   {try: func(held) error { _, err := unix.PidfdOpen(os.Getppid(), 0); return err }, allowed: []Role{Keeper}},
	"take a descriptor":       {try: func(held) error { _, err := unix.PidfdGetfd(-1, 0, 0); return err }},
	"end what ends it":        {try: func(held) error { return unix.PidfdSendSignal(-1, unix.SIGTERM, nil, 0) }, allowed: []Role{Keeper}},
	"change the root":         {try: func(held) error { return unix.Chroot("/") }},
	"load a kernel module":    {try: func(held) error { return unix.InitModule(nil, "") }},
	"read another's memory":   {try: func(held) error { _, err := unix.ProcessVMReadv(1, nil, nil, 0); return err }},
	"make a namespace":        {try: func(held) error { return unix.Unshare(unix.CLONE_NEWUSER) }},
	"start in a namespace":    {try: raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))},
	"ask a device":            {try: func(held) error { _, err := unix.IoctlGetInt(0, unix.TIOCINQ); return err }, allowed: []Role{Keeper}},
	"type on a terminal":      {try: raw(unix.SYS_IOCTL, 0, unix.TIOCSTI)},
	"mount a file system":     {try: func(held) error { return unix.Mount("none", "/mnt", "tmpfs", 0, "") }},
	"become somebody else":    {try: raw(unix.SYS_SETRESUID, 65534, 65534, 65534)},
	"let others look":         {try: func(held) error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }, allowed: []Role{Keeper}},
	"inherit priorities":      {try: raw(unix.SYS_FUTEX, 0, 6), allowed: []Role{Renderer, Keeper}},
	"use io_uring":            {try: raw(unix.SYS_IO_URING_SETUP, 1)},
	"use a 32-bit number too": {try: raw(0x40000000 | unix.SYS_OPENAT)},
}

// uncounted are the ways round the limit on memory, which the race detector needs.
var uncounted = []string{"map shared memory", "map memory in place of other", "map a private copy of memory"}

// onCode are what could put other memory in the place of a backend's code, however it is
// aimed, or make other memory executable.
var onCode = map[string]injected{
	"map over code":                       {try: mapAt(codemem.Start, 4096)},
	"map across code":                     {try: mapAt(codemem.Start-reach, 2*reach)},
	"map into code":                       {try: mapAt(codemem.Start-4096, 8192)},
	"map over the guard":                  {try: mapAt(codeEnd-4096, 4096)},
	"unmap code":                          {try: raw(unix.SYS_MUNMAP, codemem.Start, 4096)},
	"unmap across code":                   {try: raw(unix.SYS_MUNMAP, 4096, codeEnd)},
	"unmap into code":                     {try: raw(unix.SYS_MUNMAP, codemem.Start-reach, reach+4096)},
	"unmap the guard":                     {try: raw(unix.SYS_MUNMAP, codeEnd-4096, 4096)},
	"make a page of the guard executable": {try: raw(unix.SYS_MPROTECT, codemem.Start+codemem.Bytes, 4096, unix.PROT_READ|unix.PROT_EXEC)},
	"make memory behind code executable":  {try: raw(unix.SYS_MPROTECT, codemem.Start, codemem.Bytes+codemem.Guard+4096, unix.PROT_READ|unix.PROT_EXEC)},
	"make code writable and executable":   {try: raw(unix.SYS_MPROTECT, codemem.Start, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC)},
	"move memory":                         {try: raw(unix.SYS_MREMAP, 0, 0, 4096)},
}

func mapMemory(prot, flags int) func(held) error {
	return func(held) error { _, err := unix.Mmap(-1, 0, 4096, prot, flags); return err }
}

// mapAt maps memory that is shared at an address.
func mapAt(at, size uintptr) func(held) error {
	return func(h held) error {
		return raw(unix.SYS_MMAP, at, size, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED, uintptr(h.memory))(h)
	}
}

func command(cmd int) func(held) error {
	return func(h held) error { _, err := unix.FcntlInt(h.file.Fd(), cmd, 0); return err }
}

// raw makes a system call by number. Its arguments after those given are 0.
func raw(nr uintptr, args ...uintptr) func(held) error {
	return func(held) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, e := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
			return e
		}
		return nil
	}
}

func control(l *net.UnixListener, do func(fd int) error) error {
	conn, err := l.SyscallConn()
	if err == nil {
		if other := conn.Control(func(fd uintptr) { err = do(int(fd)) }); other != nil {
			return other
		}
	}
	return err
}

func detachFilter(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
}

// hold opens what a confined process has.
func hold() (h held, err error) {
	if h.file, err = os.CreateTemp("", "pvdrm-sandbox-test-"); err != nil {
		return h, err
	}
	if _, err = h.file.WriteString("log"); err == nil {
		err = os.Remove(h.file.Name())
	}
	if err == nil {
		h.memory, err = unix.MemfdCreate("held", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err == nil {
		err = unix.Ftruncate(h.memory, 4096)
	}
	if err == nil {
		_, err = unix.Seek(h.memory, 4096, io.SeekStart)
	}
	if err == nil {
		h.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: os.Getenv(inside + "_SOCKET"), Net: "unix"})
	}
	return h, err
}

// tryInside is the other process: it enters the sandbox with other threads
// running, tries what it reads the names of, and says what became of it.
func tryInside(what string) int {
	var busy sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		busy.Go(func() { <-stop })
	}
	h, err := hold()
	if err == nil {
		err = enters[os.Getenv(inside+"_ROLE")]()
	}
	if err != nil {
		fmt.Println("not confined:", err)
		return 1
	}
	defer busy.Wait()
	defer close(stop)
	switch what {
	case "serve":
		return serve(h)
	case "numbers":
		return numbers()
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		// On another thread than that which entered, too.
		results := make(chan error)
		for range 4 {
			go func() { results <- find(in.Text()).try(h) }()
		}
		said := "refused"
		for range 4 {
			if err := <-results; !refused(err) {
				said = fmt.Sprintf("allowed (%v)", err)
			}
		}
		fmt.Println(said)
	}
	return 0
}

// find returns what is to be tried.
func find(what string) injected {
	if a, ok := attempts[what]; ok {
		return a
	}
	return onCode[what]
}

// refused reports whether the sandbox kept a process from something: EFBIG is the
// answer where a file would grow.
func refused(err error) bool {
	if os.Getenv(inside+"_ROLE") == CUDAKeeper.String() && errors.Is(err, unix.ENOENT) {
		return true // see absent; what is tried exists
	}
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EFBIG)
}

// numbers makes each call that the table refuses, by number.
func numbers() int {
	for _, c := range Table() {
		for r := range roles {
			if r.String() != os.Getenv(inside+"_ROLE") || c.Access[r].Allowed || c.Unfiltered {
				continue
			}
			none := ^uintptr(0)
			_, _, e := unix.RawSyscall6(c.Number, none, none, none, none, none, none)
			if r == CUDAKeeper && e == unix.ENOENT && absent().Has(c.Number) {
				continue
			}
			if e != unix.EPERM && (c.Number != unix.SYS_CLONE3 || e != unix.ENOSYS) {
				fmt.Println(c.Name, e)
			}
		}
	}
	fmt.Println("tried")
	return 0
}

// serve does what a backend does: goroutines, memory and connections.
func serve(h held) int {
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			b := make([]byte, 1<<20)
			b[len(b)-1] = 1
		})
	}
	all.Wait()
	mem, err := unix.Mmap(h.memory, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		fmt.Println("memory:", err)
		return 1
	}
	mem[0] = 1
	code, err := codemem.Map([]byte{0xc3})
	if err == nil {
		err = codemem.Unmap(code)
	}
	if err != nil {
		fmt.Println("native code:", err)
		return 1
	}
	fmt.Println("listening")
	conn, err := h.listener.AcceptUnix()
	if err == nil {
		_, err = io.Copy(conn, conn)
	}
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		fmt.Println("a connection:", err)
		return 1
	}
	fmt.Println("served")
	return 0
}

// other returns the command of a process that tries something in a role.
func other(t *testing.T, r Role, what string) (cmd *exec.Cmd, socket string) {
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket = filepath.Join(dir, "s")
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), inside+"="+what, inside+"_ROLE="+r.String(), inside+"_SOCKET="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	return cmd, socket
}

func TestForbiddenCallsAreRefused(t *testing.T) {
	require.NoError(t, Available())
	for r := range roles {
		t.Run(r.String(), func(t *testing.T) {
			cmd, _ := other(t, r, "attempts")
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			cmd.Stderr = os.Stderr
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(out)
			all := maps.Clone(attempts)
			if r == Backend {
				maps.Copy(all, onCode)
			}
			for what, a := range all {
				if raceDetector && r == Backend && slices.Contains(uncounted, what) {
					continue
				}
				_, err := fmt.Fprintln(in, what)
				require.NoError(t, err)
				require.True(t, lines.Scan(), "%s ended it", what)
				want := "refused"
				if slices.Contains(a.allowed, r) || r == CUDAKeeper && slices.Contains(a.allowed, Keeper) || r == NVIDIARenderer && slices.Contains(a.allowed, Renderer) {
					want = "allowed"
				}
				said, _, _ := strings.Cut(lines.Text(), " (")
				require.Equal(t, want, said, "%s: %s", what, lines.Text())
			}
			require.NoError(t, in.Close())
			require.NoError(t, cmd.Wait())
		})
	}
}

// Every call by number that the table gives a role no right to is refused.
func TestForbiddenNumbersAreRefused(t *testing.T) {
	for r := range roles {
		t.Run(r.String(), func(t *testing.T) {
			cmd, _ := other(t, r, "numbers")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, "tried\n", string(out))
		})
	}
}

func TestWhatServingNeedsIsAllowed(t *testing.T) {
	cmd, socket := other(t, Backend, "serve")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Equal(t, "listening", lines.Text())
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	_, err = conn.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	echo, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "hello", string(echo))
	require.NoError(t, conn.Close())
	require.True(t, lines.Scan())
	require.Equal(t, "served", lines.Text())
	require.NoError(t, cmd.Wait())
}

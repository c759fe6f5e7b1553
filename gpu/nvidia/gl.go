package nvidia

import (
	"fmt"
	"os"
	"regexp"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
	"pvdrm/internal/workers"
)

// GLKeeper makes what workers need that draw with NVIDIA's OpenGL, in the process that starts them. Its guards
// answer what these ask of NVIDIA's resource manager (glGuard).
type GLKeeper struct {
	books    books
	refusals refusals
}

// NewGLKeeper returns a GLKeeper, whose workers may have so many bytes of VRAM together once they serve; 0 for any number.
func NewGLKeeper(vram uint64) *GLKeeper { return &GLKeeper{books: books{limit: vram}} }

// Equip makes the link on which a worker hands over its requests, which is its first descriptor after its socket.
func (k *GLKeeper) Equip() (e workers.Equipment, err error) {
	fd, guarded, err := unixsock.Pair(unix.SOCK_STREAM)
	if err != nil {
		return e, err
	}
	has, file, err := k.books.newAccount()
	if err != nil {
		unixsock.Close([]int{fd})
		_ = guarded.Close() // err is the one to report
		return e, err
	}
	_ = file.Close() // no backend reads it
	e.Worker = []*os.File{guarded}
	e.Guard = func() error { return guardGL(newLink(fd, 2+maxDevices), has, &k.refusals) }
	return e, nil
}

// GLYield is a worker that draws with NVIDIA's OpenGL, as its keeper's guard has it.
type GLYield struct{ keeper *link }

// YieldGL has the keeper see what this process asks of NVIDIA's driver from now on. The descriptor comes from
// GLKeeper.Equip. YieldGL comes before the driver starts.
func YieldGL(fd int) (*GLYield, error) {
	y := &GLYield{newLink(fd, 0)}
	if err := yieldRequests(y.keeper, glTrapped, unix.SYS_OPENAT); err != nil {
		y.keeper.close()
		return nil, fmt.Errorf("handing over the requests to NVIDIA's driver: %w", err)
	}
	return y, nil
}

// Seal says that the driver has started: from now on the keeper refuses what serving a guest does not need. It
// returns the requests that a filter of system calls may let pass; the keeper answers some of them. It
// also answers openat, of NVIDIA's devices.
func (y *GLYield) Seal() ([]Request, error) {
	defer y.keeper.close()
	if err := seal(y.keeper, true, isGLDevice); err != nil {
		return nil, fmt.Errorf("handing over NVIDIA's devices: %w", err)
	}
	return glRequests(), nil
}

// glDevices are the devices that NVIDIA's OpenGL opens while it serves.
var glDevices = regexp.MustCompile(`^/dev/nvidia(ctl|[0-9]{1,3})$`)

func isGLDevice(path string) bool { return glDevices.MatchString(path) }

// glRequests are all requests that a serving worker may make, by itself or by its keeper.
func glRequests() []Request {
	var all []Request
	for _, r := range glTrapped {
		all = append(all, Request(r))
	}
	for _, r := range glUntrapped {
		all = append(all, Request{Mask: typeMask, Value: 'F'<<8 | r.Number})
	}
	return all
}

// GLRow is a line of what a worker may ask that serves by NVIDIA's OpenGL.
type GLRow struct {
	Kind   string // request, control or class
	Number uint32
	Name   string
	Why    string // no other guest is harmed
}

// GLTable lists what a worker may ask that serves by NVIDIA's OpenGL. What it does not have is refused.
func GLTable() (rows []GLRow) {
	for _, r := range glAnswered {
		rows = append(rows, GLRow{Kind: "request, by the keeper", Number: 'F'<<8 | r.Number, Name: r.Name, Why: r.Why})
	}
	for _, r := range glUntrapped {
		rows = append(rows, GLRow{Kind: "request", Number: 'F'<<8 | r.Number, Name: r.Name, Why: r.Why})
	}
	for _, c := range glControls {
		rows = append(rows, GLRow{Kind: "control", Number: c.Number, Name: c.Name, Why: c.Why})
	}
	for _, c := range glClasses {
		rows = append(rows, GLRow{Kind: "class", Number: c.Number, Name: c.Name, Why: c.Why})
	}
	return rows
}

package virgl

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/unixsock"
	"pvdrm/internal/workers"
)

// keepHeap has glibc's malloc keep up to 64 MiB of memory that was freed. It gives back more than
// 128 KiB otherwise, and a renderer takes and frees more than that in every frame: page faults were
// most of its time. It has to be there when the process starts (glibc manual, "Tunables").
const keepHeap = "GLIBC_TUNABLES=glibc.malloc.trim_threshold=67108864:glibc.malloc.mmap_threshold=33554432"

// ServeKeeper is the program of the process that starts workers, by the given command, for a
// backend that can start none once it is confined (workers.Serve). The configuration is for its workers. With
// Confine it enters a sandbox, and so do they. It must be called on the main thread.
func ServeKeeper(command []string, c WorkerConfig) error {
	unix.CloseOnExec(socketFD)
	if err := sandbox.DropCapabilities(); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("renouncing privileges: %w", err)
	}
	p := workers.Program{Command: command, Env: append(nvidia.InOrder(os.Environ()), keepHeap), Most: 1}
	enter := sandbox.EnterKeeper
	if Guarded(c.RenderNode) {
		p.Prepare = nvidia.NewGLKeeper(c.Memory).Equip
		enter = sandbox.EnterCUDAKeeper // EGL starts CUDA to learn its numbers
	}
	if c.Confine {
		if err := enter(); err != nil {
			return err
		}
	}
	return workers.Serve(p)
}

// startWorker starts a worker, and returns the connection to it.
func startWorker(k *workers.Keeper) (*workers.Process, *net.UnixConn, error) {
	p, fds, err := k.Start()
	if err != nil {
		return nil, nil, fmt.Errorf("starting a renderer: %w", err)
	}
	conn, err := unixsock.Conn(fds[0])
	if err != nil {
		p.End()
		return nil, nil, err
	}
	return p, conn, nil
}

// endLimit is how long a worker may take to end, which takes long only if the kernel cannot end it.
const endLimit = 10 * time.Second

var errStays = errors.New("the kernel does not end the process")

// endWorker kills a worker. If it returns nil, the process is gone.
func endWorker(p *workers.Process) error {
	p.Kill()
	late := time.NewTimer(endLimit)
	defer late.Stop()
	select {
	case <-p.Gone():
		p.Close()
		return nil
	case <-late.C:
		return errStays
	}
}

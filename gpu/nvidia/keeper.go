package nvidia

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
	"pvdrm/internal/workers"
)

// KeeperCommand is the subcommand of pvdrm that calls ServeKeeper.
const KeeperCommand = "cuda-keeper"

// ServeKeeper is the program of the process that starts workers, by the given command, for a
// backend that can start none once it is confined (workers.Serve). These may have so many bytes of VRAM
// together, or any number with 0. The keeper has sockets to so many keepers of the guest's other GPUs
// (Config.Peers). It must be called on the main thread.
func ServeKeeper(command []string, vram uint64, peers int) error {
	pages, of := newStore(), &books{limit: vram}
	for i := range peers {
		fd := workers.Socket + 1 + i
		unix.CloseOnExec(fd)
		pages.peers = append(pages.peers, newPeerLine(fd, pages))
	}
	return workers.Serve(workers.Program{
		Command: command,
		// The driver would keep compiled code for all processes of this user, so one guest
		// could leave something there for another. Devices keep it themselves.
		Env:     append(InOrder(os.Environ()), "CUDA_CACHE_DISABLE=1"),
		Prepare: func() (workers.Equipment, error) { return prepareWorker(pages, of) },
	})
}

// InOrder returns the environment of a process that uses the driver, made of another's. In
// it the driver numbers GPUs as nvidia-smi does, unless the user has chosen an order.
func InOrder(env []string) []string {
	const order = "CUDA_DEVICE_ORDER="
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, order) }) {
		return env
	}
	return append(slices.Clone(env), order+"PCI_BUS_ID")
}

// backendFiles is how many files prepareWorker makes for the backend: the lane, the wake, the
// socket on which its worker is stopped, the worker's account, and where its output comes.
const backendFiles = 6

// prepareWorker makes the descriptors that a worker and its backend share, the link on which the
// worker hands over its requests, and the socket on which its backend has it stopped.
func prepareWorker(pages *store, of *books) (e workers.Equipment, err error) {
	fd, guarded, err := unixsock.Pair(unix.SOCK_STREAM)
	if err != nil {
		return e, err
	}
	e.Worker = []*os.File{guarded} // fdGuard
	ours := []int{fd}
	defer func() {
		if err != nil {
			unixsock.Close(ours)
			for _, f := range e.Worker {
				_ = f.Close() // err is the one to report
			}
		}
	}()
	stop, stops, err := unixsock.Pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return e, err
	}
	ours = append(ours, stop)
	defer func() {
		if err != nil {
			_ = stops.Close() // likewise
		}
	}()
	lane, err := newLane()
	if err != nil {
		return e, err
	}
	e.Worker = append(e.Worker, os.NewFile(uintptr(lane), "lane"))
	wake, err := newWake()
	if err != nil {
		return e, err
	}
	e.Worker = append(e.Worker, os.NewFile(uintptr(wake), "wake"))
	has, file, err := of.newAccount()
	if err != nil {
		return e, err
	}
	e.Backend = []*os.File{e.Worker[1], e.Worker[2], stops, file}
	for range 2 { // fdOutput, fdErrors
		from, to, err := newOutput()
		if err != nil {
			return e, err
		}
		e.Backend, e.Worker = append(e.Backend, from), append(e.Worker, to)
	}
	e.Guard = func() error { return guardWorker(newLink(fd, 2+maxDevices), stop, pages, has) }
	return e, nil
}

// keeper starts the workers of a device.
type keeper struct {
	*workers.Keeper
	number int32   // ordinal of the GPU for which it starts workers
	peers  []int32 // ordinals of the guest's other GPUs, in the order of the sockets to their keepers
	ledger *ledger
}

// startKeeper starts the keeper of workers for a device.
func startKeeper(c *Config) (keeper, error) {
	of := keeper{number: int32(c.Number), ledger: &ledger{pages: map[*process][]byte{}}}
	var lines []*os.File
	for _, p := range c.Peers {
		of.peers, lines = append(of.peers, int32(p.Number)), append(lines, p.Keeper)
	}
	var err error
	of.Keeper, err = workers.NewKeeper(workers.Config{Name: "CUDA workers", Command: c.Keeper, Files: backendFiles, Inherits: lines})
	for _, f := range lines {
		_ = f.Close() // the keeper has it
	}
	return of, err
}

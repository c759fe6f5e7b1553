// Package interpose serves the DRM ioctls of programs that were not written for
// PVDRM, by the driver that frontend.File is. cmd/pvdrm-run is its main.
//
// # How a call gets here
//
// The program is started under a seccomp filter (filter.go) that all it starts
// inherits. What the filter traps is received on a descriptor (listener.go),
// served and answered; the caller waits meanwhile as in any system call, but only
// a fatal signal ends that wait (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV): without
// it any signal would restart the call, and it would be served twice. Trapped are
// ioctls of type 'd', maps at offsets as GEM_NEW gives them and, where there is
// no node in /dev/dri, opens with the flags of a node. What turns out not to be
// ours goes on in Linux as if it had not been trapped.
//
// # What a DRM file is
//
// An open file description of the node, as in any driver: whatever descriptor,
// of whatever process, refers to it. So dup, fork, exec and descriptors that
// travel through sockets need no care. But the description must not be held by
// us, or nobody could see that the program has closed it. Therefore:
//
//   - A new one is taken over for a moment (pidfd_getfd) and put into an epoll
//     instance of its own, which does not keep it. kcmp tells whether what a
//     descriptor refers to is what the epoll instance knows, in one system call,
//     whatever was closed, duplicated or received since.
//   - For that moment it also gets a lock (F_OFD_SETLK) on a byte of the node
//     that no other has. A description of our own waits for the same byte: it gets
//     it when the last descriptor is gone, and then the driver's file is closed.
//
// What a descriptor refers to is looked at once, when the call is trapped. A
// program that changes it meanwhile, in another thread, may have its call go on
// in Linux on virtio-gpu's own driver, which it could also reach without us: this
// package gives programs a driver, and takes none away.
//
// In a virtual machine the node is virtio-gpu's, and programs open it themselves;
// the driver's file is another description of it, with the carrier on it. On a
// host there is no node: programs that open NodePath get a description of a pipe.
// It can neither be seen in /dev/dri nor by stat.
//
// # Memory
//
// Arguments are copied once (process_vm_readv), and only then is the notification
// looked at once more: if the caller lives, what was read was its own. It is looked
// at again before results are written, if anything was waited for since: to have its
// number, another thread would have to be the next but some thousands to start.
//
// A map of an object must give pages of another file than the one that the
// program names: the grant's memfd or dma-buf. No answer can say that. So the
// program does it itself: it gets a descriptor of the grant, is stopped on its way
// out of the call, as by a debugger, does mmap and close with our arguments and
// goes on with the result (trace.go). That keeps objects apart (each has a file
// of its own), shared ones shared, and costs nothing but at mmap. The price: a
// program that a debugger or strace traces already cannot map objects; EPERM.
//
// # Who owns what
//
// The main goroutine starts the program and reaps all that it leaves behind. One
// goroutine at a time receives calls and serves them; before it waits for
// anything else, another takes its place (supervisor.relieve); it stands by itself
// once it is done. Each is locked to a thread, which may be bound to the processor of
// the caller (nest). One goroutine waits for the release of each file. One thread
// is under the filter itself, since the program inherits it from there; it does
// nothing else.
//
// Where a trace is wanted, calls go through a trace.Recorder of each file.
//
// Lock order: children.mu, which is held while a thread is stopped; files.mu,
// which is held while files are compared, and never while a call is served.
package interpose

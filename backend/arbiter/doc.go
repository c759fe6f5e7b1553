// Package arbiter hands out the right to run on the engines of a GPU to the
// backends of one host, by a policy of package sched.
//
// A Server is the daemon's side: it listens on a Unix socket. The process that starts a guest
// connects there and takes the guest's Seat (Take): the connection, and a page of memory that
// the arbiter shares. The guest's backend gets both as descriptors, so it opens no socket. A
// Gate is the backend's side: the device asks it before each command (Enter) and notifies it
// after (Leave). A token in the page decides whether the backend may begin a command. While no
// other backend waits, the token stays where it is, and entering and leaving cost an atomic
// operation each.
//
// # Trust
//
// Backends trust the arbiter, and not each other. The arbiter trusts none of them. The parent
// that starts a guest sends the guest's name, key and wished share once, in Hello; Config.Admit
// decides by the user (SO_PEERCRED), the name and the key. A backend that has a Seat can change
// none of that: the arbiter refuses a second Hello. A backend can read and write its own page
// only; the Server remembers the holder of the token and never reads it from a page. The Server
// compares the use that a page claims with the time that has passed, so a backend that lies
// pays for the time for which it held the token. The arbiter disconnects a backend that keeps
// the engine for too long, sends malformed messages, sends too many, or does not read.
//
// Config.MaxPerUser bounds the guests of a user. When a guest leaves, its debt passes to its
// payer (Admission), whose next guest owes it: a new name does not clear a debt.
//
// Take accepts an arbiter only of the users that its caller names, by default the caller's
// own: SO_PEERCRED names the user who began to listen, which is root for a service that
// systemd activates by a socket.
//
// The arbiter cannot stop a backend from using the GPU: only the backend's own code keeps it
// from running without the token. The arbiter ensures that backends which follow the protocol
// share fairly, whatever the others send to the arbiter.
//
// # The token
//
// Each engine has a word in the page, of these bits:
//
//	1   Held     the backend has the token
//	2   Busy     a command runs                              (set by the backend)
//	4   Begun    a command was begun with this token         (set by the backend)
//	8   Shared   others wait: return the token when there is nothing more to do
//	16  Once     return it after one command
//	32  Revoked  begin nothing
//	64  Beside   begin only work that may run concurrently with such work of others
//	128 Preempt  stop the command that runs where it can go on later, and return the token
//	             (since version 1.3)
//	256 Turns    with Beside: also begin work that the GPU serves in turn (since version 1.5)
//	512 Fill     with Beside and a number of processors: also begin work that uses more of them, on so many
//	             (since version 1.6)
//
// With Beside and a number of processors in the page, the backend may begin work that uses at most so many of them
// (since version 1.6), and nothing else.
//
// The word goes through these states. The arbiter's actions are in capitals.
//
//	  0 ◄────────────────────────────┐
//	  │ GRANT: store Held[|Shared][|Once], message Grant
//	  ▼                              │
//	Held ───REVOKE: or Revoked─────► taken back: nothing runs, no answer is needed
//	  │ Enter: swap in Busy|Begun    │
//	  ▼                              │
//	Busy ───REVOKE: or Revoked─────► Busy|Revoked
//	  │ Leave: swap out Busy         │ Leave: store 0, message Yield
//	  ▼                              ▼
//	Held (as above)                  0
//
// Enter and Leave use compare-and-swap, so that they fail if the arbiter has changed the
// word before. The arbiter does not at once revoke a token with which no command was begun,
// because the backend may be about to wake up: it sets Once, and Revoked after
// Config.UseLimit.
//
// A backend that got the token while no other waited may keep it when others come, because it goes before them. The arbiter
// then sets Shared, and takes the token back at once if nothing runs.
//
// Several backends have the token concurrently if each has asked for it for work that may run
// concurrently with such work (package sched, "Concurrent work"): its word then has Beside. A
// backend that wants to begin other work swaps Held for 0, and sends Yield to ask for the token
// again. A token without Beside allows both kinds of work, and only one backend has one.
//
// Work of a backend that has declared (flag 8 of its request) that the GPU serves it in turn with such
// work of others is like that, too, under a policy that measures what each uses (sched.Disengaged). Its
// word then has Turns and Beside. It begins and ends commands without a message, and reports each in the
// page when it has ended (Gate.Charge).
//
// # Processors
//
// Kernels of the software GPU run on processors of the host, and one with few blocks leaves some of them idle. A backend
// that knows how many a kernel uses at most names the number (flag 16 of its request). The arbiter gives several such
// backends the token as long as the sum is at most GPU.Processors, under the policies that take commands off
// the engine by an order of guests (package sched, "Processors"). A backend keeps such a token from command to command
// for as long as no guest waits for which there is no room.
//
// A kernel that needs more processors than are idle, and can run on fewer (flag 32), gets those that are: its word has
// Fill. For the policy its guest waits all the same, so that others stop for it when it goes before them; it stops
// itself, to go on with more, when it is alone or the next.
//
// The number is a claim. It follows from the grid of blocks, which a guest chooses, and the backend's own code runs no
// more workers than that. A backend that a guest has taken over may claim less than it uses. It could as well compute
// without a token: in both cases the host's kernel divides the processors, by the weights of the backends' control
// groups. What the claim cannot do is to keep those waiting who need more: they are picked by the policy's order, those who
// run stop for them, and pay from then on for all of the time, by the processors that they claimed. A guest that
// waits, and is the next by that order, does not wait for smaller ones behind it.
//
// # Preemption
//
// Where the policy takes commands off the engine (sched.Preemptive), the arbiter sets Preempt in
// the word of a holder whose command overstays. The device looks at the word while it works
// (Gate.Preempted): no message is sent, because a backend all of whose processors run kernels
// would read it late. The device stops the command at its next preemption point, Leaves, which
// returns the token, Enters again like any other command, and goes on when it is admitted. So
// the use up to then is charged once, and the limits on keeping others waiting begin again.
//
// The arbiter asks only a backend that has declared with flag 4 of its request that it looks, and
// nothing depends on the answer: one that lies, or is at no preemption point, is waited for as
// before, and is disconnected after Config.AnswerLimit. A hold during which no command was begun is
// not preempted until one was.
//
// # Promises
//
// Config bounds the channels, contexts and memory of a GPU (Limits). A guest that joins is promised
// the amounts that it needs, or is refused if the GPU is full; the promise stands in its page and ends
// when it leaves. Its backend keeps the guest to it. A backend that has joined keeps what it was
// promised, so no guest can take from another what a GPU has only once.
//
// # Wire format, version 1.6
//
// The socket is of type SOCK_SEQPACKET. All numbers are little-endian.
//
// Hello, 128 bytes, the first message, from the process that takes the seat:
//
//	0    4   magic 0x52415650 ("PVAR")
//	4    2   major version: must be the arbiter's
//	6    2   minor version
//	8    4   number of the GPU
//	12   4   weight wished for; 0 is 1
//	16   4   cap wished for, millionths; 0 is none
//	20   4   reserve wished for, millionths
//	24   16  key
//	40   64  name of the guest, padded with zeros: 1 to 63 of A-Z a-z 0-9 . _ -
//	104  4   class wished for: 0 batch, 1 latency   (this and the next two
//	108  4   priority wished for                     since version 1.2; zero
//	112  4   SLA wished for, microseconds; 0 is none  before)
//	116  4   channels needed                         (this and the next two
//	120  4   contexts needed                          since version 1.4; zero
//	124  4   memory needed, MiB: less than 1<<24      before). 0 is what the
//	         arbiter gives each guest
//
// All other messages have 32 bytes, Refuse up to 256 more of text:
//
//	0    2   operation
//	2    2   engine: 0 compute, 1 copy
//	4    4   flags. 1, of Yield: it has more to do and waits for the token again.
//	         2, of Request and such a Yield: for work that may run concurrently with
//	         such work (since version 1.1; before, it was ignored).
//	         4, of the same: the backend looks at Preempt while such work runs
//	         (since version 1.3; before, it was ignored).
//	         8, of the same: the GPU serves the work in turn with such work of
//	         others (since version 1.5; before, it was ignored).
//	         16, of the same: the work uses at most as many processors as bits 16 to 31
//	         say, and may run concurrently with such work of others as long as there are
//	         enough (since version 1.6; before, it was ignored). 32, with 16: it can run on
//	         fewer.
//	         Of Welcome: minor version. Of Refuse: errno
//	8    8   number of the grant, of Grant and Yield
//	16   16  zero
//
//	operation  from     meaning
//	1 Welcome  arbiter  answer to Hello, with the descriptor of the page: the seat
//	2 Refuse   arbiter  the connection ends; the text has the reason
//	3 Grant    arbiter  the word of the engine is Held now
//	4 Request  backend  it waits for the token of an engine, or for another kind of work than before
//	5 Cancel   backend  it no longer waits
//	6 Yield    backend  it returns a token, or no longer has it
//
// The page is a memfd of 4096 bytes, sealed against any change of its size. It
// never leaves the host: its words are in the host's byte order.
// The first line has what the guest is promised, since version 1.4: at 0 channels (4 bytes), at 4
// contexts (4 bytes), at 8 bytes of memory (8 bytes); 0 is no limit. At 16 is how many guests are at the GPU (4 bytes), which
// the arbiter writes whenever one joins or leaves; 0 where it does not. Engine e has two lines of 64 bytes at 128·(e+1):
//
//	0    4   the word of the token
//	4    4   with Beside: processors that the token is for, written by the arbiter before the word; 0 if their
//	         number does not matter (since version 1.6; before, zero)
//	8    8   number of the grant, written by the arbiter before the word
//	64   8   nanoseconds for which the engine was used, in all: the backend's
//	72   8   commands, in all: the backend's
//
// # Control
//
// A second socket, of type SOCK_STREAM, takes one Command as JSON for each
// connection and answers it with an Answer. It serves the user who runs the
// arbiter, and root, by SO_PEERCRED, independently of Config.Admit. No message on
// the first socket has the effect of a Command.
//
// # Goroutines and locks
//
// The Server has one goroutine that accepts, and one for each connection, which
// reads. ServeControl adds one for each of at most maxControllers connections. A
// timer of each engine runs its ticks. arena.mu guards the state of one GPU: its
// schedulers, tokens, members and debts. It is held for one decision at a time and
// while messages are sent, which never blocks. door.mu guards the numbers of
// connections. Neither is taken while the other is held.
//
// The Gate has one goroutine that connects, reads and connects again. Gate.mu
// guards its state. Enter and Leave take it only when they cannot go on without
// the arbiter.
package arbiter

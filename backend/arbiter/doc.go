// Package arbiter hands out the right to run on the engines of a GPU to the
// backends of one host, by a policy of package sched.
//
// A Server is the daemon's side: it listens on a Unix socket, and each backend
// process connects to it. A Gate is the backend's side: the device asks it before
// each command (Enter) and tells it after (Leave). Both sides share one page of
// memory for each connection, in which a token says whether the backend may
// begin a command. While nobody else waits the token stays where it is, and
// entering and leaving cost an atomic operation each.
//
// # Trust
//
// Backends trust the arbiter, and not each other. The arbiter trusts none of
// them. Who connects is known by SO_PEERCRED, by the name and the key that it
// sends, and by Config.Admit. A backend can read and write its own page only;
// who has the token is what the Server remembers, never what a page says. What
// a page claims to have used is held against the time that went by, so that a
// liar pays for what it held. A backend that keeps the engine for too long,
// sends nonsense, sends too much or does not read is disconnected.
//
// The arbiter can stop nobody from using the GPU: what keeps a backend from
// running without the token is its own code. It sees to it that those who play
// by the rules share fairly, whatever the others do to the arbiter.
//
// # The token
//
// Each engine has a word in the page, of these bits:
//
//	1   Held     the backend has the token
//	2   Busy     a command runs                              (set by the backend)
//	4   Begun    a command was begun with this token         (set by the backend)
//	8   Shared   others wait: give the token back when there is nothing more to do
//	16  Once     give it back after one command
//	32  Revoked  begin nothing
//	64  Beside   begin only what may go on beside such work of others
//
// and goes through these states. What the arbiter does is in capitals.
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
// Enter and Leave use compare-and-swap, so that they fail when the arbiter was
// there first. A token with which nothing was begun yet is not revoked at once,
// because the backend may be just about to wake up: Once is set instead, and
// Revoked follows after Config.UseLimit.
//
// Several backends have the token at once if each has asked for it for work that may go on
// beside such work (package sched, "Side by side"): its word then has Beside. A backend that wants
// to begin other work swaps Held out for 0, and sends Yield to ask for it anew. A token without Beside
// is good for both, and nobody else has one.
//
// # Wire format, version 1.1
//
// The socket is of type SOCK_SEQPACKET. All numbers are little-endian.
//
// Hello, 128 bytes, the first message of the backend:
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
//	104  24  zero
//
// All other messages have 32 bytes, Refuse up to 256 more of text:
//
//	0    2   operation
//	2    2   engine: 0 compute, 1 copy
//	4    4   flags. 1, of Yield: it has more to do and waits for the token again.
//	         2, of Request and such a Yield: for work that may go on beside such work
//	         (since version 1.1; before, it was ignored). Of Welcome: minor version. Of Refuse: errno
//	8    8   number of the grant, of Grant and Yield
//	16   16  zero
//
//	operation  from     meaning
//	1 Welcome  arbiter  answer to Hello, with the descriptor of the page
//	2 Refuse   arbiter  the connection ends; text says why
//	3 Grant    arbiter  the word of the engine is Held now
//	4 Request  backend  it waits for the token of an engine, or for another kind of work than before
//	5 Cancel   backend  it no longer waits
//	6 Yield    backend  it gives a token back, or no longer has it
//
// The page is a memfd of 4096 bytes, sealed against any change of its size. It
// never leaves the host: its words are in the host's byte order.
// Engine e has two lines of 64 bytes at 128·(e+1):
//
//	0    4   the word of the token
//	4    4   zero
//	8    8   number of the grant, written by the arbiter before the word
//	64   8   nanoseconds for which the engine was used, in all: the backend's
//	72   8   commands, in all: the backend's
//
// # Control
//
// A second socket, of type SOCK_STREAM, takes one Command as JSON for each
// connection and answers it with an Answer. It serves the user who runs the
// arbiter, and root, by SO_PEERCRED, whatever Config.Admit says.
//
// # Goroutines and locks
//
// The Server has one goroutine that accepts, and one for each connection, which
// reads. ServeControl adds one for each of at most maxControllers connections. A timer of each engine runs its ticks. arena.mu guards all that belongs
// to one GPU: its schedulers, tokens and members; it is held for a decision at
// a time and while messages are sent, which never blocks. Server.mu guards the
// set of connections. Neither is taken while the other is held.
//
// The Gate has one goroutine that connects, reads and connects again. Gate.mu
// guards its state. Enter and Leave take it only when they cannot go on without
// the arbiter.
package arbiter

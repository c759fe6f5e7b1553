// Package supervisor starts a guest's backend as a confined process and looks after it.
//
// There are two processes. The parent (pvdrm up, run or backend) has the rights of the user who
// started the guest: it makes the guest's socket, reaches the arbiter, and writes the log. The child serves
// the guest, has no more than package sandbox leaves it, and sees no socket but by descriptor:
//
//	parent                                         child
//	  listens at the guest's path ───descriptor──► accepts guests
//	  link: ready, failed, seat   ◄──seqpacket───► asks for seats at the arbiter
//	  statistics, on request      ◄───stream─────► counts
//	  log, escaped and bounded    ◄────pipe─────── standard error, of its workers too
//
// # Trust
//
// The child trusts the parent. The parent trusts nothing that it reads from the child, since a guest
// may have taken it over: messages, lines and answers have bounds, as have their rates. An unknown
// message of the link ends the child. The parent escapes the text that it shows or logs (Escape), and
// logs less than a megabyte an hour for a guest. The guest's name, share and key at the arbiter are
// the parent's.
//
// # The link
//
// Each packet is one message: byte 0 is the operation, bytes 1 to 3 are zero, bytes 4 to 7 are a
// code (little-endian), and up to 1,024 bytes of text follow.
//
//	operation  from    code       text               meaning
//	1 ready    child   –          what is missing    it serves; once
//	2 failed   child   exit code  why                it ends; the last message
//	3 seat     child   –          –                  it asks for a seat at the arbiter
//	4 seated   parent  –          –                  the answer, with two descriptors: connection and page
//	5 refused  parent  errno      why                the answer: the arbiter refuses the guest
//	6 absent   parent  –          why                the answer: there is no arbiter now
//
// The parent answers one request after the other and no faster than seatRate. When the child reads
// the end of the link, the parent is gone or wants it to end.
//
//	            ready              failed, end
//	starting ───────────► serving ─────────────► ended
//	    │ ▲ seat            │ ▲ seat               ▲
//	    └─┘                 └─┘                    │
//	    └────────── failed, end ───────────────────┘
//
// # Statistics
//
// For each byte that the child reads on the stream of statistics, it writes the length of an answer
// (4 bytes, little-endian) and the answer.
//
// # Goroutines and locks
//
// A Backend has four goroutines: one reads the link and answers, one reads the log, one waits for
// the process, one asks it to end with its context. A Child has two: one reads the link, one answers
// for statistics. Each lock guards the fields below it, and no other is taken under it.
package supervisor

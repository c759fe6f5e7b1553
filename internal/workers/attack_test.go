package workers

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Attack is the program of a keeper that answers its first order with notices that it may not send,
// and then waits for the end of its backend.
func Attack(how string) error {
	id, err := receiveOrder()
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	fd := int(null.Fd())
	attack := attacks[how]
	if attack == nil {
		return fmt.Errorf("no attack %q", how)
	}
	attack(id, fd)
	for err == nil {
		_, err = receiveOrder()
	}
	return nil
}

func mustSend(n *notice) {
	if err := sendNotice(n); err != nil {
		panic(err)
	}
}

// attacks are wrong answers to an order, with a descriptor that they may send.
var attacks = map[string]func(id uint64, fd int){
	"short": func(uint64, int) { _ = unix.Sendmsg(Socket, []byte{1}, nil, nil, 0) },
	"short with descriptors": func(_ uint64, fd int) {
		_ = unix.Sendmsg(Socket, []byte{1}, unix.UnixRights(fd, fd), nil, 0)
	},
	"long": func(id uint64, fd int) {
		n := notice{id: id, kind: noticeRefused, text: "x"}
		_ = unix.Sendmsg(Socket, append(n.append(nil), make([]byte, 2*maxText)...), nil, nil, 0)
	},
	"kind":                func(id uint64, _ int) { mustSend(&notice{id: id, kind: 7}) },
	"another process":     func(id uint64, fd int) { mustSend(&notice{id: id + 1, kind: noticeStarted, fds: []int{fd, fd}}) },
	"too few descriptors": func(id uint64, fd int) { mustSend(&notice{id: id, kind: noticeStarted, fds: []int{fd}}) },
	"too many descriptors": func(id uint64, fd int) {
		mustSend(&notice{id: id, kind: noticeStarted, fds: []int{fd, fd, fd, fd, fd}})
	},
	"end before the start": func(id uint64, _ int) { mustSend(&notice{id: id, kind: noticeEnded}) },
	"refusal with descriptors": func(id uint64, fd int) {
		mustSend(&notice{id: id, kind: noticeRefused, fds: []int{fd}})
	},
	"end of the stream": func(uint64, int) { _ = unix.Shutdown(Socket, unix.SHUT_RDWR) },
}

// Attacks names the attacks.
func Attacks() (names []string) {
	for name := range attacks {
		names = append(names, name)
	}
	return names
}

package arbiter

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// door counts connections. It counts by user, not by process: one process starts many guests, and
// a user can start any number of processes.
type door struct {
	most, mostPerUser int // guests

	mu    sync.Mutex
	all   crowd
	users map[uint32]*crowd
}

// crowd is a number of connections, and how many of these are guests.
type crowd struct{ connections, guests int }

// patience is the number of connections allowed for each allowed guest: some have not yet sent
// their hello.
const patience = 2

// visit is one connection.
type visit struct {
	door *door
	uid  uint32

	// Guarded by door.mu.
	seated, gone bool
}

// enter counts a connection, or fails when there are far too many.
func (d *door) enter(uid uint32) (*visit, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.users[uid]
	switch {
	case d.all.connections >= patience*d.most:
		return nil, fmt.Errorf("%d connections: %w", d.all.connections, unix.ENOSPC)
	case u != nil && u.connections >= patience*d.mostPerUser:
		return nil, fmt.Errorf("%d connections of user %d: %w", u.connections, uid, unix.ENOSPC)
	case u == nil:
		u = &crowd{}
		d.users[uid] = u
	}
	d.all.connections++
	u.connections++
	return &visit{door: d, uid: uid}, nil
}

// sit counts the connection as a guest, or fails when there are enough.
func (v *visit) sit() error {
	d := v.door
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.users[v.uid]
	if d.all.guests >= d.most {
		return fmt.Errorf("%d guests have joined, which is the limit: %w", d.most, unix.ENOSPC)
	}
	if u.guests >= d.mostPerUser {
		return fmt.Errorf("user %d has %d guests, which is the limit: %w", v.uid, d.mostPerUser, unix.ENOSPC)
	}
	d.all.guests++
	u.guests++
	v.seated = true
	return nil
}

// exit ends the count of a connection; it may be called more than once.
func (v *visit) exit() {
	d := v.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.gone {
		return
	}
	v.gone = true
	u := d.users[v.uid]
	for _, c := range []*crowd{&d.all, u} {
		c.connections--
		if v.seated {
			c.guests--
		}
	}
	if u.connections == 0 {
		delete(d.users, v.uid)
	}
}

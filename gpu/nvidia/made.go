package nvidia

import (
	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
)

// madePages are the pages of VRAM that a worker has made since it was sealed, by their numbers in that
// order. Its keeper remembers how it made each, so that it can hold one on a descriptor later, when the
// backend shares it with other workers. The backend reads the count in the memory of the account, before
// and after it has had the worker allocate. keeping.mu guards them.
type madePages struct {
	count []byte // a word that the backend reads
	next  uint32
	pages map[uint32]*madePage
	names map[objectName]uint32
}

// madePage is what the keeper asked the driver for, and got.
type madePage struct {
	fd               int
	argument, params []byte
}

func (m *madePages) add(fd int, argument, params []byte) {
	if m.pages == nil {
		m.pages, m.names = map[uint32]*madePage{}, map[objectName]uint32{}
	}
	name, _ := allocated(argument)
	m.drop(name)
	if len(m.pages) < mostObjects {
		m.pages[m.next] = &madePage{fd: fd, argument: append([]byte(nil), argument...), params: append([]byte(nil), params...)}
		m.names[name] = m.next
	}
	m.next++
	if m.count != nil {
		hostmem.SwapUint32(m.count, 0, m.next)
	}
}

func (m *madePages) drop(name objectName) {
	if n, ok := m.names[name]; ok {
		delete(m.names, name)
		delete(m.pages, n)
	}
}

// freed forgets a page that the worker has freed. What goes with its parent is forgotten with the worker.
func (k *keeping) freed(name objectName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made.drop(name)
}

// hold keeps a page that the worker has, for others, too. It is one of the memory that began last.
func (k *keeping) hold(number uint32, call rmCall) stopStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.made.pages[number]
	switch {
	case k.mode != stopHold:
		return stopErrno | stopStatus(unix.EINVAL)
	case p == nil || !k.keep(p.fd, p.argument, p.params, call):
		k.failed = true
	}
	return 0
}

// drop lets go of a memory that is held for several workers. Those that have it keep it.
func (k *keeping) drop(memory uint64) stopStatus {
	k.store.drop(func(name pageName, p *keptPage) bool { return name.memory == memory && p.shared })
	return 0
}

// made returns how many pages a worker has made, modulo 2³².
func (l *ledger) made(p *process) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := l.pages[p]
	if page == nil {
		return 0
	}
	return hostmem.LoadUint32(page, accountMade)
}

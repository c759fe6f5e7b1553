package vhostuser

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"go.uber.org/zap"

	"pvdrm/internal/hostmem"
)

// session is one connection of a front end. All of its methods run on the
// goroutine that reads the messages.
type session struct {
	dev    Device
	log    *zap.Logger
	conn   *net.UnixConn
	queues []*queue
	mem    *hostmem.Table // a reference, or nil
	proto  uint64         // protocol features in use
}

// handler says how a message is treated.
type handler struct {
	name string
	size int // bytes of payload; variable: run checks
	fds  int // at most so many descriptors
	run  func(s *session, m *message) (reply []byte, err error)
}

const variable = -1

// handlers has all messages that are understood. The others are about features
// that were not offered.
var handlers = map[request]handler{
	reqGetFeatures:         {name: "GET_FEATURES", run: (*session).getFeatures},
	reqSetFeatures:         {name: "SET_FEATURES", size: 8, run: (*session).setFeatures},
	reqSetOwner:            {name: "SET_OWNER", run: nothing},
	reqResetOwner:          {name: "RESET_OWNER", run: nothing}, // deprecated, means nothing
	reqSetMemTable:         {name: "SET_MEM_TABLE", size: variable, fds: maxRegions, run: (*session).setMemTable},
	reqSetVringNum:         {name: "SET_VRING_NUM", size: 8, run: (*session).setVringNum},
	reqSetVringAddr:        {name: "SET_VRING_ADDR", size: 40, run: (*session).setVringAddr},
	reqSetVringBase:        {name: "SET_VRING_BASE", size: 8, run: (*session).setVringBase},
	reqGetVringBase:        {name: "GET_VRING_BASE", size: 8, run: (*session).getVringBase},
	reqSetVringKick:        {name: "SET_VRING_KICK", size: 8, fds: 1, run: (*session).setVringKick},
	reqSetVringCall:        {name: "SET_VRING_CALL", size: 8, fds: 1, run: (*session).setVringCall},
	reqSetVringErr:         {name: "SET_VRING_ERR", size: 8, fds: 1, run: (*session).setVringErr},
	reqGetProtocolFeatures: {name: "GET_PROTOCOL_FEATURES", run: (*session).getProtocolFeatures},
	reqSetProtocolFeatures: {name: "SET_PROTOCOL_FEATURES", size: 8, run: (*session).setProtocolFeatures},
	reqGetQueueNum:         {name: "GET_QUEUE_NUM", run: (*session).getQueueNum},
	reqSetVringEnable:      {name: "SET_VRING_ENABLE", size: 8, run: (*session).setVringEnable},
	reqGetConfig:           {name: "GET_CONFIG", size: variable, run: (*session).getConfig},
	reqSetConfig:           {name: "SET_CONFIG", size: variable, run: (*session).setConfig},
	reqGPUSetSocket:        {name: "GPU_SET_SOCKET", fds: 1, run: (*session).gpuSetSocket},
	reqResetDevice:         {name: "RESET_DEVICE", run: (*session).resetDevice},
}

func (r request) String() string {
	if h, ok := handlers[r]; ok {
		return h.name
	}
	return fmt.Sprintf("number %d", uint32(r))
}

// serve reads and answers messages until the front end is gone, which is no
// error, or breaks the protocol.
func (s *session) serve() error {
	for {
		m, err := receive(s.conn)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		reply, err := s.handle(m)
		m.closeFDs()
		if reply != nil {
			if _, werr := s.conn.Write(encodeReply(m.req, reply)); werr != nil && err == nil {
				err = fmt.Errorf("answering %v: %w", m.req, werr)
			}
		}
		if err != nil {
			return err
		}
	}
}

// handle treats one message and returns the payload of its answer, nil for none.
// The front end gets its acknowledgement of a failure too, before it is
// disconnected: it then knows what to complain about.
func (s *session) handle(m *message) (reply []byte, err error) {
	h, ok := handlers[m.req]
	switch {
	case !ok:
		err = violation("message %v is about something that was not offered", m.req)
	case h.size != variable && len(m.payload) != h.size:
		err = violation("%v: payload of %d bytes, want %d", m.req, len(m.payload), h.size)
	case len(m.fds) > h.fds:
		err = violation("%v: %d descriptors, at most %d", m.req, len(m.fds), h.fds)
	default:
		s.log.Debug("front end: " + h.name)
		reply, err = h.run(s, m)
	}
	if reply == nil && m.needAck && s.proto&protoReplyAck != 0 {
		status := uint64(0)
		if err != nil {
			status = 1
		}
		reply = u64(status)
	}
	return reply, err
}

// close stops everything that the session started.
func (s *session) close() {
	for _, q := range s.queues {
		q.close()
	}
	if s.mem != nil {
		s.mem.Release()
		s.mem = nil
	}
	s.dev.Reset()
}

func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

func nothing(*session, *message) ([]byte, error) { return nil, nil }

func (s *session) getFeatures(*message) ([]byte, error) {
	return u64(s.dev.Features() | offeredRing), nil
}

func (s *session) setFeatures(m *message) ([]byte, error) {
	f := m.u64()
	if bad := f & refusedRing; bad != 0 {
		return nil, violation("features %#x are in use and were not offered", bad)
	}
	for _, q := range s.queues {
		err := q.configure(func() error {
			q.eventIdx = f&featEventIdx != 0
			// Without protocol features there is no message to enable a queue.
			q.enabled = q.enabled || f&featProtocol == 0
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (s *session) getProtocolFeatures(*message) ([]byte, error) { return u64(offeredProto), nil }

func (s *session) setProtocolFeatures(m *message) ([]byte, error) {
	s.proto = m.u64()
	if bad := s.proto &^ offeredProto; bad != 0 {
		return nil, violation("protocol features %#x were not offered", bad)
	}
	return nil, nil
}

func (s *session) getQueueNum(*message) ([]byte, error) { return u64(uint64(len(s.queues))), nil }

func (s *session) setMemTable(m *message) ([]byte, error) {
	regions, err := decodeMemTable(m.payload)
	if err != nil {
		return nil, err
	}
	if len(regions) != len(m.fds) {
		return nil, violation("memory table of %d regions came with %d descriptors", len(regions), len(m.fds))
	}
	slots := make([]hostmem.Slot, 0, len(regions))
	for i, r := range regions {
		reg, err := hostmem.Map(m.takeFD(i), r.offset, r.size)
		if err != nil {
			for _, slot := range slots {
				slot.Region.Release()
			}
			return nil, fmt.Errorf("memory region %d: %w", i, err)
		}
		slots = append(slots, hostmem.Slot{Guest: r.guest, User: r.user, Region: reg})
	}
	t, err := hostmem.NewTable(slots)
	if err != nil {
		return nil, violation("%w", err)
	}
	if s.mem != nil {
		s.mem.Release()
	}
	s.mem = t
	for _, q := range s.queues {
		if err := q.setMemory(t); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// queue finds the queue with an index of the front end's.
func (s *session) queue(req request, index uint32) (*queue, error) {
	if int64(index) >= int64(len(s.queues)) {
		return nil, violation("%v: queue %d of %d", req, index, len(s.queues))
	}
	return s.queues[index], nil
}

// layout changes something about a ring that must not change under a worker.
func (s *session) layout(req request, index uint32, change func(q *queue) error) error {
	q, err := s.queue(req, index)
	if err != nil {
		return err
	}
	return q.configure(func() error {
		if q.ring != nil {
			return violation("%v: queue %d is running", req, index)
		}
		return change(q)
	})
}

func (s *session) setVringNum(m *message) ([]byte, error) {
	index, num := m.vringState()
	return nil, s.layout(m.req, index, func(q *queue) error {
		if num == 0 || num > maxQueueSize || num&(num-1) != 0 {
			return violation("queue %d: size %d, want a power of two up to %d", index, num, maxQueueSize)
		}
		q.size = int(num)
		return nil
	})
}

func (s *session) setVringAddr(m *message) ([]byte, error) {
	index, addr, err := decodeVringAddr(m.payload)
	if err != nil {
		return nil, err
	}
	return nil, s.layout(m.req, index, func(q *queue) error {
		q.addr = &addr
		return nil
	})
}

func (s *session) setVringBase(m *message) ([]byte, error) {
	index, base := m.vringState()
	if base > 0xffff {
		return nil, violation("queue %d: index %d has more than 16 bits", index, base)
	}
	moved := false
	err := s.layout(m.req, index, func(q *queue) error {
		q.base = uint16(base)
		moved = q.ran && q.base != q.lastAvail
		return nil
	})
	// QEMU before 9.1 does not say RESET_DEVICE when the guest resets the device.
	// A queue that does not go on where it stopped tells the same.
	if err != nil || !moved {
		return nil, err
	}
	if err := s.reset(); err != nil {
		return nil, err
	}
	return nil, s.layout(m.req, index, func(q *queue) error {
		q.base = uint16(base)
		return nil
	})
}

func (s *session) getVringBase(m *message) ([]byte, error) {
	index, _ := m.vringState()
	q, err := s.queue(m.req, index)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	reply := le.AppendUint32(nil, index)
	return le.AppendUint32(reply, uint32(q.halt())), nil
}

func (s *session) setVringEnable(m *message) ([]byte, error) {
	index, on := m.vringState()
	q, err := s.queue(m.req, index)
	if err != nil {
		return nil, err
	}
	return nil, q.configure(func() error {
		q.enabled = on != 0
		return nil
	})
}

// eventfd decodes a message that sets or removes an eventfd of a queue.
// The descriptor is -1 when there is none.
func (s *session) eventfd(m *message) (q *queue, fd int, err error) {
	v := m.u64()
	if q, err = s.queue(m.req, uint32(v&vringIndex)); err != nil {
		return nil, -1, err
	}
	if want := v&vringNoFD == 0; want != (len(m.fds) == 1) {
		return nil, -1, violation("%v: %d descriptors with flags %#x", m.req, len(m.fds), v)
	}
	if len(m.fds) == 0 {
		return q, -1, nil
	}
	fd = m.takeFD(0)
	if err := checkEventfd(fd); err != nil {
		closeFD(fd)
		return nil, -1, violation("%v: %w", m.req, err)
	}
	return q, fd, nil
}

func (s *session) setVringKick(m *message) ([]byte, error) {
	q, fd, err := s.eventfd(m)
	if err != nil {
		return nil, err
	}
	if fd < 0 {
		return nil, violation("%v: queue %d without a kick descriptor: polling is not offered", m.req, q.index)
	}
	return nil, q.configure(func() error {
		q.dropKick()
		q.kick = os.NewFile(uintptr(fd), "kick")
		return nil
	})
}

func (s *session) setVringCall(m *message) ([]byte, error) {
	q, fd, err := s.eventfd(m)
	if err != nil {
		return nil, err
	}
	return nil, q.configure(func() error {
		closeFD(q.call)
		q.call = fd
		if fd >= 0 {
			notify(fd) // an interrupt may have gone to the descriptor before
		}
		return nil
	})
}

func (s *session) setVringErr(m *message) ([]byte, error) {
	q, fd, err := s.eventfd(m)
	if err != nil {
		return nil, err
	}
	return nil, q.configure(func() error {
		closeFD(q.fault)
		q.fault = fd
		return nil
	})
}

func (s *session) getConfig(m *message) ([]byte, error) {
	offset, _, region, err := decodeConfig(m.payload)
	if err != nil {
		return nil, err
	}
	reply := append([]byte(nil), m.payload...)
	clear(reply[configHead:])
	if config := s.dev.Config(); int(offset) < len(config) {
		copy(reply[configHead:][:len(region)], config[offset:])
	}
	return reply, nil
}

// setConfig ignores what the guest writes: QEMU keeps the only field that a
// driver of a GPU may write, events_clear, itself.
func (s *session) setConfig(m *message) ([]byte, error) {
	_, _, _, err := decodeConfig(m.payload)
	return nil, err
}

func (s *session) gpuSetSocket(m *message) ([]byte, error) {
	if len(m.fds) != 1 {
		return nil, violation("%v without a socket", m.req)
	}
	f := os.NewFile(uintptr(m.takeFD(0)), "display")
	c, err := net.FileConn(f) // duplicates the descriptor
	closeFile(f)
	if err != nil {
		return nil, violation("%v: %w", m.req, err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close() // refused; nothing was written to it
		return nil, violation("%v: not a Unix socket", m.req)
	}
	s.dev.SetDisplay(conn)
	return nil, nil
}

func (s *session) resetDevice(*message) ([]byte, error) { return nil, s.reset() }

// reset stops what runs and forgets all that the guest did.
func (s *session) reset() error {
	for _, q := range s.queues {
		if q.running() {
			err := q.configure(func() error {
				q.enabled = false
				return nil
			})
			if err != nil {
				return err
			}
		}
		q.reset()
	}
	s.dev.Reset()
	return nil
}

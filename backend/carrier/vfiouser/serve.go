package vfiouser

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
)

// MaxMaps is how many ranges of its memory a client may map at a time. QEMU has a dozen.
const MaxMaps = 256

// pageBits are the page sizes of which ranges of memory consist.
const pageBits = 4096

// session is a connection.
type session struct {
	device Device
	conn   *net.UnixConn
	config *space
	spoken bool                       // versions were agreed on
	maps   map[uint64]*hostmem.Region // by address
	order  []uint64                   // addresses of those, to look for overlaps
}

// Serve shows a device to the client at the other end of a connection, until that hangs up (nil), breaks
// the protocol, or ctx ends. It closes the connection, and unmaps what the client has mapped.
func Serve(ctx context.Context, conn *net.UnixConn, d Device) error {
	s := &session{device: d, conn: conn, config: newSpace(d), maps: map[uint64]*hostmem.Region{}}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(0, 1)) // fails only when it is closed
	})
	defer stop()
	err := s.serve()
	for addr := range s.maps {
		s.unmap(addr)
	}
	return errors.Join(err, conn.Close(), ctx.Err())
}

// ServeEach shows a device to each client that connects, one after the other, until ctx ends; with once it
// returns when the first is gone. Between two clients the device is reset. The end of ctx closes l.
func ServeEach(ctx context.Context, l *net.UnixListener, once bool, log *zap.Logger, d Device) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })() // it ends Accept
	for {
		conn, err := l.AcceptUnix()
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("waiting for QEMU on %v: %w", l.Addr(), err)
		}
		err = Serve(ctx, conn, d)
		d.Reset()
		if err != nil && ctx.Err() == nil {
			log.Warn("disconnected QEMU", zap.Error(err))
		}
		if once {
			return nil
		}
	}
}

func (s *session) serve() error {
	for {
		m, err := receive(s.conn)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		err = s.answer(&m)
		for fd := m.take(); fd >= 0; fd = m.take() {
			_ = unix.Close(fd) // it was not asked for
		}
		if err != nil {
			return err
		}
	}
}

// answer serves a request.
func (s *session) answer(m *message) error {
	if !s.spoken && m.command != cmdVersion {
		return fmt.Errorf("%w: command %d before versions were agreed on", ErrProtocol, m.command)
	}
	payload, file, err := s.do(m)
	if errors.Is(err, ErrProtocol) {
		return err
	}
	if m.flags&flagSilent != 0 {
		return nil
	}
	var failure unix.Errno
	if err != nil && !errors.As(err, &failure) {
		failure = unix.EINVAL
	}
	var control []byte
	if file > 0 && failure == 0 {
		control = unix.UnixRights(file)
	}
	_, _, err = s.conn.WriteMsgUnix(m.reply(payload, failure), control, nil)
	return err
}

// do runs a request. An error that wraps no errno and not ErrProtocol is EINVAL for the client.
func (s *session) do(m *message) (payload []byte, file int, err error) {
	switch m.command {
	case cmdVersion:
		payload, err = s.version(m.payload)
	case cmdMap:
		err = s.mapMemory(m)
	case cmdUnmap:
		payload, err = s.unmapMemory(m.payload)
	case cmdDevice:
		payload = words(16, flagReset|flagPCI, regions, interrupts)
	case cmdRegion:
		return s.region(m.payload)
	case cmdInterrupt:
		if len(m.payload) < 16 || binary.LittleEndian.Uint32(m.payload[8:]) >= interrupts {
			return nil, 0, unix.EINVAL
		}
		payload = words(16, 0, binary.LittleEndian.Uint32(m.payload[8:]), 0)
	case cmdInterrupts: // there is none to set, and none that would be triggered
	case cmdRead, cmdWrite:
		payload, err = s.access(m)
	case cmdReset:
		s.config = newSpace(s.device)
		s.device.Reset()
	default: // others, also cmdRegionFiles and cmdWrites, which are optional
		err = unix.ENOTSUP
	}
	return payload, 0, err
}

// Flags of a device, and of a region.
const (
	flagReset = 1
	flagPCI   = 2

	regionRead  = 1
	regionWrite = 2
	regionMap   = 4
	regionMore  = 8 // there are capabilities

	capabilityAreas = 1
)

func words(v ...uint32) (b []byte) {
	for _, w := range v {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// limits are the capabilities that both sides tell.
type limits struct {
	Capabilities struct {
		Files    int    `json:"max_msg_fds"`
		Transfer int    `json:"max_data_xfer_size"`
		Pages    uint64 `json:"pgsizes"`
		Maps     int    `json:"max_dma_maps"`
	} `json:"capabilities"`
}

// version agrees on 0.0.
func (s *session) version(p []byte) ([]byte, error) {
	if s.spoken || len(p) < 4 {
		return nil, fmt.Errorf("%w: versions", ErrProtocol)
	}
	if major := binary.LittleEndian.Uint16(p); major != 0 {
		return nil, fmt.Errorf("%w: version %d; this is 0", ErrProtocol, major)
	}
	if text := strings.TrimRight(string(p[4:]), "\x00"); text != "" {
		if err := json.Unmarshal([]byte(text), &limits{}); err != nil {
			return nil, fmt.Errorf("%w: capabilities: %w", ErrProtocol, err)
		}
	}
	s.spoken = true
	var l limits
	l.Capabilities.Files, l.Capabilities.Transfer, l.Capabilities.Pages, l.Capabilities.Maps = maxFiles, MaxTransfer, pageBits, MaxMaps
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return append(append(make([]byte, 4), text...), 0), nil
}

// region describes a region. Where the client has no room for the areas, it is told how much they need.
func (s *session) region(p []byte) (payload []byte, file int, err error) {
	if len(p) < 32 {
		return nil, 0, unix.EINVAL
	}
	room, index := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[8:])
	if index >= regions {
		return nil, 0, unix.EINVAL
	}
	r := Region{}
	switch {
	case index == ConfigRegion:
		r.Size = configBytes
	case index < 6:
		r = s.device.Region(int(index))
	}
	flags, need := uint32(0), uint32(32)
	if r.Size > 0 {
		flags = regionRead | regionWrite
	}
	var areas []byte
	if r.File > 0 && len(r.Areas) <= maxAreas {
		flags |= regionMap | regionMore
		areas = words(capabilityAreas|1<<16, 0, uint32(len(r.Areas)), 0)
		for _, a := range r.Areas {
			areas = binary.LittleEndian.AppendUint64(areas, a.Offset)
			areas = binary.LittleEndian.AppendUint64(areas, a.Size)
		}
		need += uint32(len(areas))
		file = r.File
	}
	more := uint32(0)
	if len(areas) > 0 {
		more = 32 // also where it does not fit: QEMU checks that before it asks once more
	}
	if room < need {
		areas = nil
	}
	payload = words(need, flags, index, more)
	payload = binary.LittleEndian.AppendUint64(payload, r.Size)
	payload = binary.LittleEndian.AppendUint64(payload, 0)
	return append(payload, areas...), file, nil
}

// access reads or writes a region.
func (s *session) access(m *message) ([]byte, error) {
	if len(m.payload) < 16 {
		return nil, unix.EINVAL
	}
	off, index, n := binary.LittleEndian.Uint64(m.payload), binary.LittleEndian.Uint32(m.payload[8:]), binary.LittleEndian.Uint32(m.payload[12:])
	size := uint64(0)
	switch {
	case index == ConfigRegion:
		size = configBytes
	case index < 6:
		size = s.device.Region(int(index)).Size
	}
	head, data := m.payload[:16], m.payload[16:]
	if n > MaxTransfer || uint64(n) > size || off > size-uint64(n) || m.command == cmdWrite && len(data) != int(n) {
		return nil, unix.EINVAL
	}
	if m.command == cmdRead {
		data = make([]byte, n)
		if index == ConfigRegion {
			copy(data, s.config.bytes[off:])
		} else {
			s.device.Read(int(index), off, data)
		}
		return append(head[:16:16], data...), nil
	}
	if index == ConfigRegion {
		s.config.write(off, data)
	} else {
		s.device.Write(int(index), off, data)
	}
	return head, nil
}

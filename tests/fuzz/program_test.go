package fuzz

import (
	"encoding/binary"
	"time"

	"pvdrm/drm"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// input is what a fuzzer made, read as a program. It reads as zero behind its end.
type input struct{ b []byte }

func (in *input) byte() byte {
	if len(in.b) == 0 {
		return 0
	}
	x := in.b[0]
	in.b = in.b[1:]
	return x
}

func (in *input) u16() uint16 { return uint16(in.byte()) | uint16(in.byte())<<8 }

func (in *input) take(n int) []byte {
	n = min(n, len(in.b))
	p := in.b[:n]
	in.b = in.b[n:]
	return p
}

// program runs an input on the files of one guest.
type program struct {
	input
	open  func(file int) *client
	files [2]*client
	props gpu.Properties
	*client
}

// wildIDs name nothing, or what is at the end of a table.
var wildIDs = []uint32{0, 5, 63, 64, 100, 1 << 14, 1<<31 - 1, 1<<32 - 1}

// id is of an object, channel, module or function: one of four, mostly.
func (p *program) id() uint32 {
	if b := p.byte(); b < 0xf0 {
		return 1 + uint32(b%4)
	} else {
		return wildIDs[b%8]
	}
}

var sizes = []uint64{page, 2 * page, 3 * page, 16 * page, 64 << 10, 2 << 20, 4 << 20, 0, 1, page - 1, page + 8, 1 << 40, 1 << 62, 1<<64 - page, 1<<64 - 1, 8}

func (p *program) size() uint64 { return sizes[p.byte()%16] }

// address is somewhere in the windows, mostly near what is mapped there.
func (p *program) address() uint64 {
	b := p.byte()
	at := uint64(b&15) * page
	switch b >> 4 {
	case 0, 1, 2, 3:
		return p.props.System.Base + at
	case 4, 5, 6, 7:
		return p.props.VRAM.Base + at
	case 8, 9: // not aligned, and before or behind a page
		return p.props.System.Base + at + uint64(int8(p.byte()))
	case 10:
		return p.props.VRAM.Base + at + uint64(int8(p.byte()))
	case 11: // the ends of the windows
		return []uint64{p.props.System.Base + p.props.System.Size, p.props.VRAM.Base + p.props.VRAM.Size}[b&1] - at
	case 12: // variables of modules
		return 0xf0<<32 + at + uint64(p.byte())
	case 13: // .shared, .local and parameters, as the engine sees them
		return 1<<(56+b%3) + uint64(p.byte())
	case 14:
		return at * page << (b & 15)
	}
	return binary.LittleEndian.Uint64(append(p.take(8), make([]byte, 8)...))
}

// step runs one operation. It reports false at the end of the input.
func (p *program) step() bool {
	if len(p.b) == 0 {
		return false
	}
	what := p.byte()
	file := int(what >> 7)
	if p.files[file] == nil {
		p.files[file] = p.open(file)
	}
	p.client = p.files[file]
	if p.client == nil {
		return true // the guest may not have one more
	}
	if p.ended() && !p.lied {
		panic("the session ended, and the protocol was kept")
	}
	operations[int(what&127)%len(operations)](p)
	if p.client != nil {
		p.drain()
	}
	return true
}

// request sends one, and mostly lets the session know.
func (p *program) request(op hypercall.Op, payload []byte) {
	flags := p.byte()
	p.send(op, uint16(flags&1), payload)
	if flags&6 != 0 {
		p.kick()
	}
	if flags&0x18 == 0x18 {
		p.settle()
	}
}

// operations are what a program may do; an operation that is there twice is likely.
var operations = []func(*program){
	func(p *program) {
		p.request(hypercall.OpGemNew, hypercall.GemNew{Handle: p.id(), Size: p.size()}.Append(nil))
	},
	func(p *program) { b := p.byte(); p.grant(1+uint32(b&3), 1+int(b>>2&3), 1+int(b>>4&3)) },
	func(p *program) {
		m := hypercall.GemGrant{Handle: p.id(), Resource: p.id(), Offset: p.size(), Size: p.size()}
		if p.byte()&3 != 0 {
			m.Offset = 0
		}
		p.request(hypercall.OpGemGrant, m.Append(nil))
	},
	(*program).granted, (*program).granted,
	(*program).bind, (*program).bind,
	func(p *program) { p.request(hypercall.OpGemClose, hypercall.ID{ID: p.id()}.Append(nil)) },
	func(p *program) { p.request(hypercall.OpGemUnmap, hypercall.ID{ID: p.id()}.Append(nil)) },
	func(p *program) {
		id := p.id()
		p.request(hypercall.OpChannelAlloc, hypercall.ID{ID: id}.Append(nil))
	},
	func(p *program) {
		id := p.id()
		p.request(hypercall.OpChannelFree, hypercall.ID{ID: id}.Append(nil))
		if p.byte()&1 != 0 {
			p.settle()
			delete(p.seqno, id)
		}
	},
	(*program).module, (*program).module,
	(*program).part,
	func(p *program) { p.request(hypercall.OpModuleUnload, hypercall.ID{ID: p.id()}.Append(nil)) },
	(*program).symbol, (*program).symbol,
	(*program).exec, (*program).exec, (*program).exec, (*program).exec,
	func(p *program) {
		if id := p.id(); id < hypercall.MaxChannels {
			p.kick()
			p.await(id, p.seqno[id], time.Duration(p.byte())*10*time.Microsecond)
		}
	},
	func(p *program) { p.revoke(p.id()) }, func(p *program) { p.revoke(p.id()) },
	func(p *program) { p.revoke(p.id()); p.regain() },
	func(p *program) { // anything at all
		op := hypercall.Op(p.byte() % 20)
		p.request(op, p.take(int(p.byte())))
	},
	func(p *program) { // what only asks
		ops := []hypercall.Op{hypercall.OpNop, hypercall.OpProperties, hypercall.OpMemoryInfo, hypercall.OpStatus, hypercall.OpCounters, hypercall.OpReadOutput}
		p.request(ops[p.byte()%6], nil)
	},
	func(p *program) {
		if b := p.byte(); b >= 0xc0 { // rarely: it is the end of most of what can be checked
			p.lie(uint32(b&15)*0x20, uint32(int8(p.byte())))
		}
	},
	func(p *program) {
		if b := p.byte(); b >= 0xc0 {
			p.lie(uint32(p.u16()), uint32(p.u16())<<(b&16))
		}
	},
	func(p *program) { time.Sleep(time.Duration(p.byte()) * time.Microsecond) },
	func(p *program) { p.settle() },
	(*program).reopen,
	(*program).prelude, (*program).prelude,
}

// granted makes an object of a whole grant.
func (p *program) granted() {
	id := p.id()
	g, err := p.carrier.Grant(id)
	if err != nil {
		p.grant(id%8, 1+int(id&1), 2)
		g, err = p.carrier.Grant(id % 8)
	}
	if err == nil {
		p.request(hypercall.OpGemGrant, hypercall.GemGrant{Handle: p.id(), Resource: id, Size: g.Size()}.Append(nil))
	}
}

func (p *program) bind() {
	var m hypercall.VMBind
	for range 1 + p.byte()%3 {
		b := p.byte()
		op := drm.BindOp{Op: drm.BindMap, Handle: p.id(), Addr: p.address(), BOOffset: uint64(b>>4&3) * page, Range: p.size()}
		switch b & 7 {
		case 0:
			op = drm.BindOp{Op: drm.BindUnmap, Addr: op.Addr, Range: op.Range}
		case 1:
			op.Flags = drm.BindReadOnly
		case 2:
			op.Op, op.Flags = uint32(p.byte()), uint32(p.byte())
		}
		m.Ops = append(m.Ops, op)
	}
	p.request(hypercall.OpVMBind, m.Append(nil))
}

// module loads one of the sources, sometimes spoilt, in parts.
func (p *program) module() {
	b := p.byte()
	source := []byte(modules[int(b&15)%len(modules)])
	for range int(b>>4) / 4 {
		source[int(p.u16())%len(source)] = p.byte()
	}
	id, step := p.id(), 64<<(p.byte()%9)
	for at := 0; at < len(source); at += step {
		p.settle() // the bulk area is free
		n := copy(p.ring.Bulk()[:min(step, len(p.ring.Bulk()))], source[at:])
		p.send(hypercall.OpModuleLoad, 0, hypercall.ModuleLoad{Module: id, Bytes: uint32(n), Offset: uint64(at), Total: uint64(len(source)), Name: "fuzz\x1b.ptx"}.Append(nil))
		p.kick()
		if p.byte()&15 == 15 { // it changes while it is read
			bulk := p.ring.Bulk()
			bulk[int(p.u16())%len(bulk)] = p.byte()
		}
	}
}

// part sends a part of a source that may not follow the one before.
func (p *program) part() {
	p.request(hypercall.OpModuleLoad, hypercall.ModuleLoad{Module: p.id(), Bytes: uint32(p.size()), Offset: uint64(p.byte()) * 64, Total: p.size()}.Append(nil))
}

func (p *program) symbol() {
	m := hypercall.Symbol{Module: p.id(), Function: p.id(), Name: kernelNames[int(p.byte())%len(kernelNames)]}
	op := hypercall.OpModuleFunction
	if m.Function == 4 {
		op, m.Name = hypercall.OpModuleGlobal, []string{"variable", "fixed", "text", ""}[p.byte()%4]
	}
	p.request(op, m.Append(nil))
}

// exec queues a batch.
func (p *program) exec() {
	b := p.byte()
	m := hypercall.Exec{Channel: p.id(), Stream: p.stream(1 + int(b&3))}
	if b&0x30 == 0x30 {
		for range 1 + p.byte()%3 {
			id := p.id()
			m.Waits = append(m.Waits, drm.Point{Channel: id, Seqno: p.seqno[id] - uint64(p.byte()%3) + 1})
		}
	}
	m.Seqno = p.seqno[m.Channel] + 1
	if b >= 0xf8 {
		m.Seqno = uint64(p.byte())
	} else {
		p.seqno[m.Channel]++
	}
	if b >= 0xf0 && len(m.Stream) > 0 {
		m.Stream[int(p.u16())%len(m.Stream)] ^= p.byte()
	}
	p.request(hypercall.OpExec, m.Append(nil))
}

func (p *program) stream(commands int) (s []byte) {
	for range commands {
		b := p.byte()
		rows := uint64(1)
		if b&0x80 != 0 {
			rows = p.size()
		}
		switch b & 7 {
		case 0:
			s = drm.CopyCmd{Dst: p.address(), Src: p.address(), Width: p.size(), Height: rows, DstPitch: p.size(), SrcPitch: p.size()}.Append(s)
		case 1:
			s = drm.FillCmd{Dst: p.address(), Size: 1 << (b >> 4 & 3), Pattern: uint32(b), Width: p.size(), Height: rows, Pitch: p.size()}.Append(s)
		case 2:
			s = drm.TimestampCmd{Addr: p.address()}.Append(s)
		case 3:
			s = drm.TaskCmd{}.Append(s)
		default:
			params := binary.LittleEndian.AppendUint64(nil, p.address())
			if b&0x40 != 0 {
				params = binary.LittleEndian.AppendUint64(params, p.address())
			} else {
				params = binary.LittleEndian.AppendUint64(params, uint64(p.byte())<<(b>>3&7))
			}
			l := drm.LaunchCmd{Function: p.id(), Grid: [3]uint32{1 + uint32(b>>3&1), 1, 1}, Block: [3]uint32{1 + uint32(p.byte()), 1, 1}, Params: params}
			if b&0x80 != 0 {
				l.Signal = p.address()
			}
			s = l.Append(s)
		}
	}
	return s
}

// reopen closes the file and opens another in its place.
func (p *program) reopen() {
	for i, c := range p.files {
		if c == p.client {
			c.close()
			p.files[i] = p.open(i)
		}
	}
	p.client = nil // until the next step
}

// prelude does what a program does at its start, so that few bytes lead far: channel
// 1, a granted object 1 and one in VRAM, 2, both mapped, module 1 and its function.
func (p *program) prelude() {
	const objectPages = 4
	b := p.byte()
	p.grant(1, 1+int(b&1), objectPages)
	p.send(hypercall.OpChannelAlloc, 0, hypercall.ID{ID: 1}.Append(nil))
	p.send(hypercall.OpGemGrant, 0, hypercall.GemGrant{Handle: 1, Resource: 1, Size: objectPages * page}.Append(nil))
	p.send(hypercall.OpGemNew, 0, hypercall.GemNew{Handle: 2, Size: objectPages * page}.Append(nil))
	p.send(hypercall.OpVMBind, 0, hypercall.VMBind{Ops: []drm.BindOp{
		{Op: drm.BindMap, Handle: 1, Addr: p.props.System.Base, Range: objectPages * page},
		{Op: drm.BindMap, Handle: 2, Addr: p.props.VRAM.Base, Range: objectPages * page},
	}}.Append(nil))
	name := int(b>>1) % (len(kernelNames) - 1)
	source := modules[[]int{0, 0, 0, 1, 1, 2, 2, 1, 2}[name]]
	p.settle()
	n := copy(p.ring.Bulk(), source)
	p.send(hypercall.OpModuleLoad, 0, hypercall.ModuleLoad{Module: 1, Bytes: uint32(n), Total: uint64(n)}.Append(nil))
	p.settle() // it compiles
	p.send(hypercall.OpModuleFunction, 0, hypercall.Symbol{Module: 1, Function: 1 + uint32(b>>7), Name: kernelNames[name]}.Append(nil))
	if b&0x40 != 0 {
		p.settle()
	}
	p.kick()
}

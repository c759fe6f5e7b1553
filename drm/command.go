package drm

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// The command stream of EXEC is a list of commands, each a multiple of 8
// bytes: a header of u16 opcode, u16 length of the whole command in units of 8
// bytes, u32 argument; then the body, little endian.
//
//	op  name         argument       body
//	1   COPY         0              u64 dst, src, width, height, dst pitch, src pitch
//	2   FILL         pattern size   u64 dst, width, height, pitch, pattern
//	3   LAUNCH       function       u32 grid[3], block[3], shared bytes, parameter bytes; parameters, zero padded to 8
//	4   TIMESTAMP    0              u64 address
//	5   TASK         0
//	6   COOPERATIVE  function       as of LAUNCH
//	7   WORD         size | op<<8   u64 address, value
//	8   CLUSTER      function       u32 cluster[3], flags; then as of LAUNCH
//	9   YIELDING     function       u64 signal; then as of CLUSTER
//	10  CALL         function       u64 results, arguments, u32 bytes of results, bytes of arguments; these, zero padded to 8
//
// COOPERATIVE is LAUNCH of a grid all of whose blocks run at the same time, so that they may wait
// for each other. One with more blocks than can do so fails with ERANGE.
//
// CLUSTER is LAUNCH of a grid in clusters of so many blocks in each dimension, which divide the grid.
// Flags are 1 where it is also COOPERATIVE, else 0. Clusters that are not possible fail with EDOM.
//
// YIELDING is LAUNCH of a kernel that gives the GPU away on its own: while it runs, the device stores 1 to
// the signal, a 32-bit word of granted memory, when others want the GPU or half of the launch limit is
// over, and the kernel is to save what it needs and end soon. Cluster may be zero here: as the kernel says.
//
// WORD has the size of a word in the low 8 bits of its argument, 4 or 8 bytes, and above them what
// it does (WordOp): it writes the word at once, or waits until that satisfies a condition.
//
// CALL has a library of the host, such as cuBLAS, called on the channel: the work that the function
// queues is behind what the channel has queued before. The arguments are a batch of calls
// (internal/cudalibs), in the stream, or at an address of system memory where that is not 0; results
// are written to system memory when the function returns, before the command completes. The
// argument names the function for messages. It is EINVAL where PVDRM_PARAM_LIBRARIES is 0.
//
// TASK, as the first command, says that the stream is a task: it may be run again
// from its start, in a context whose VRAM and variables are as new, and then leaves
// the same in system memory. So the work of a file all of whose streams are
// tasks outlives the process on the host that ran it, and a device may stop such a
// stream to run that of another guest.
//
// Widths and pitches are in bytes, heights in rows, addresses are GPU virtual
// addresses.
const (
	cmdCopy      = 1
	cmdFill      = 2
	cmdLaunch    = 3
	cmdTimestamp = 4
	cmdTask      = 5
	cmdTogether  = 6
	cmdWord      = 7
	cmdCluster   = 8
	cmdYielding  = 9
	cmdCall      = 10

	cmdHeader    = 8
	copyBytes    = cmdHeader + 6*8
	fillBytes    = cmdHeader + 5*8
	launchBytes  = cmdHeader + 8*4
	clusterBytes = 4 * 4 // before the body of LAUNCH
	signalBytes  = 8     // before the body of CLUSTER
	stampBytes   = cmdHeader + 8
	wordBytes    = cmdHeader + 2*8
	callBytes    = cmdHeader + 2*8 + 2*4
	bytesPerUnit = 8
)

// CopyCmd copies Height rows of Width bytes between GPU addresses.
type CopyCmd struct {
	Dst, Src           uint64
	Width, Height      uint64 // bytes, rows
	DstPitch, SrcPitch uint64 // bytes; ignored when Height is 1
}

// FillCmd writes a pattern of Size (1, 2 or 4) bytes over Height rows of Width bytes.
type FillCmd struct {
	Dst                  uint64
	Size                 uint32
	Pattern              uint32
	Width, Height, Pitch uint64
}

// LaunchCmd runs a kernel. Function comes from MODULE_FUNCTION.
type LaunchCmd struct {
	Function    uint32
	Grid, Block [3]uint32
	SharedBytes uint32
	Params      []byte
	Cluster     [3]uint32 // blocks of a cluster; zero: as the kernel says
	Cooperative bool      // all blocks run at the same time
	Signal      uint64    // address of the word by which the kernel is asked to end; 0: it is not
}

// TimestampCmd writes the device's time in nanoseconds as a u64.
type TimestampCmd struct{ Addr uint64 }

// WordOp is what a WordCmd does.
type WordOp uint32

// Operations on words. Waits compare the word with the value: the first as signed numbers whose
// difference may wrap, the last two bit by bit.
const (
	WordWrite        WordOp = iota
	WaitGreaterEqual        // word - value >= 0
	WaitEqual               // word == value
	WaitAnd                 // word & value != 0
	WaitNor                 // ^(word | value) != 0

	lastWordOp = WaitNor
)

// WordCmd writes a word of Size bytes, 4 or 8, or waits for one. Addr is a multiple of Size.
type WordCmd struct {
	Addr, Value uint64
	Size        uint32
	Op          WordOp
}

// CallCmd calls a function of a library. Args are the calls, at most MaxInlineCall bytes, unless they lie at ArgsAddr.
type CallCmd struct {
	Function    uint32
	Args        []byte
	ArgsAddr    uint64
	ArgsBytes   uint32 // at ArgsAddr
	Results     uint64 // a multiple of 8; 0: none are wanted
	ResultBytes uint32
}

// Bounds of CALL, in bytes.
const (
	MaxInlineCall = 4096
	MaxCall       = 64 << 20 // of arguments, or of results, that lie in system memory
)

// TaskCmd says that the stream that it begins is a task.
type TaskCmd struct{}

func header(b []byte, op, size int, arg uint32) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(op))
	b = binary.LittleEndian.AppendUint16(b, uint16(size/bytesPerUnit))
	return binary.LittleEndian.AppendUint32(b, arg)
}

func words(b []byte, v ...uint64) []byte {
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// Append appends the command to a stream.
func (c CopyCmd) Append(b []byte) []byte {
	return words(header(b, cmdCopy, copyBytes, 0), c.Dst, c.Src, c.Width, c.Height, c.DstPitch, c.SrcPitch)
}

// Append appends the command to a stream.
func (c FillCmd) Append(b []byte) []byte {
	return words(header(b, cmdFill, fillBytes, c.Size), c.Dst, c.Width, c.Height, c.Pitch, uint64(c.Pattern))
}

// Append appends the command to a stream. Params must be at most MaxLaunch bytes long.
func (c LaunchCmd) Append(b []byte) []byte {
	padded := (len(c.Params) + bytesPerUnit - 1) &^ (bytesPerUnit - 1)
	op := cmdLaunch
	if c.Cooperative {
		op = cmdTogether
	}
	size := launchBytes + padded
	switch {
	case c.Signal != 0:
		op, size = cmdYielding, size+signalBytes+clusterBytes
	case c.Cluster != [3]uint32{}:
		op, size = cmdCluster, size+clusterBytes
	}
	b = header(b, op, size, c.Function)
	if op == cmdYielding {
		b = words(b, c.Signal)
	}
	if op == cmdCluster || op == cmdYielding {
		flags := uint32(0)
		if c.Cooperative {
			flags = clusterTogether
		}
		for _, v := range [...]uint32{c.Cluster[0], c.Cluster[1], c.Cluster[2], flags} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	for _, v := range [...]uint32{c.Grid[0], c.Grid[1], c.Grid[2], c.Block[0], c.Block[1], c.Block[2],
		c.SharedBytes, uint32(len(c.Params))} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = append(b, c.Params...)
	return append(b, make([]byte, padded-len(c.Params))...)
}

// Append appends the command to a stream.
func (c TimestampCmd) Append(b []byte) []byte {
	return words(header(b, cmdTimestamp, stampBytes, 0), c.Addr)
}

// Append appends the command to a stream.
func (c WordCmd) Append(b []byte) []byte {
	return words(header(b, cmdWord, wordBytes, c.Size|uint32(c.Op)<<wordOpShift), c.Addr, c.Value)
}

// wordOpShift is where the argument of WORD has the operation; below it has the size.
const wordOpShift = 8

// Append appends the command to a stream.
func (c CallCmd) Append(b []byte) []byte {
	n, padded := c.ArgsBytes, 0
	if c.ArgsAddr == 0 {
		n, padded = uint32(len(c.Args)), (len(c.Args)+bytesPerUnit-1)&^(bytesPerUnit-1)
	}
	b = words(header(b, cmdCall, callBytes+padded, c.Function), c.Results, c.ArgsAddr, uint64(c.ResultBytes)|uint64(n)<<32)
	if padded == 0 {
		return b
	}
	b = append(b, c.Args...)
	return append(b, make([]byte, padded-len(c.Args))...)
}

// Append appends the command to a stream.
func (TaskCmd) Append(b []byte) []byte { return header(b, cmdTask, cmdHeader, 0) }

// CommandSink takes the commands of a stream in order.
type CommandSink interface {
	Copy(CopyCmd) error
	Fill(FillCmd) error
	Launch(LaunchCmd) error // Params alias the stream
	Timestamp(TimestampCmd) error
	Word(WordCmd) error
	Call(CallCmd) error // Args alias the stream
	Task() error
}

// WalkCommands decodes a stream and hands each command to the sink. It checks
// the form only: lengths, padding and opcodes. It ends at the first error and
// returns the index of the command it belongs to; a malformed stream is EINVAL.
func WalkCommands(stream []byte, sink CommandSink) (index int, err error) {
	for ; len(stream) > 0; index++ {
		if len(stream) < cmdHeader {
			return index, fmt.Errorf("command %d: %d bytes are no header: %w", index, len(stream), syscall.EINVAL)
		}
		op := binary.LittleEndian.Uint16(stream)
		size := int(binary.LittleEndian.Uint16(stream[2:])) * bytesPerUnit
		arg := binary.LittleEndian.Uint32(stream[4:])
		if size < cmdHeader || size > len(stream) {
			return index, fmt.Errorf("command %d: %d bytes long in a rest of %d: %w", index, size, len(stream), syscall.EINVAL)
		}
		if err := walkOne(op, arg, stream[cmdHeader:size], sink); err != nil {
			return index, fmt.Errorf("command %d: %w", index, err)
		}
		stream = stream[size:]
	}
	return index, nil
}

func walkOne(op uint16, arg uint32, body []byte, sink CommandSink) error {
	u64 := func(i int) uint64 { return binary.LittleEndian.Uint64(body[i*8:]) }
	want := func(n int) error {
		if len(body) != n-cmdHeader {
			return fmt.Errorf("opcode %d with a body of %d bytes: %w", op, len(body), syscall.EINVAL)
		}
		return nil
	}
	switch op {
	case cmdCopy:
		if err := want(copyBytes); err != nil {
			return err
		}
		return sink.Copy(CopyCmd{Dst: u64(0), Src: u64(1), Width: u64(2), Height: u64(3), DstPitch: u64(4), SrcPitch: u64(5)})
	case cmdFill:
		if err := want(fillBytes); err != nil {
			return err
		}
		if arg != 1 && arg != 2 && arg != 4 || u64(4)>>32 != 0 {
			return fmt.Errorf("fill with a pattern of %d bytes, 0x%x: %w", arg, u64(4), syscall.EINVAL)
		}
		return sink.Fill(FillCmd{Dst: u64(0), Width: u64(1), Height: u64(2), Pitch: u64(3), Pattern: uint32(u64(4)), Size: arg})
	case cmdLaunch, cmdTogether, cmdCluster, cmdYielding:
		return walkLaunch(op, arg, body, sink)
	case cmdTimestamp:
		if err := want(stampBytes); err != nil {
			return err
		}
		return sink.Timestamp(TimestampCmd{Addr: u64(0)})
	case cmdWord:
		if err := want(wordBytes); err != nil {
			return err
		}
		c := WordCmd{Addr: u64(0), Value: u64(1), Size: arg & (1<<wordOpShift - 1), Op: WordOp(arg >> wordOpShift)}
		if c.Size != 4 && c.Size != 8 || c.Op > lastWordOp || c.Size == 4 && c.Value>>32 != 0 {
			return fmt.Errorf("operation %d on a word of %d bytes with 0x%x: %w", c.Op, c.Size, c.Value, syscall.EINVAL)
		}
		return sink.Word(c)
	case cmdCall:
		return walkCall(arg, body, sink)
	case cmdTask:
		if err := want(cmdHeader); err != nil {
			return err
		}
		return sink.Task()
	}
	return fmt.Errorf("unknown opcode %d: %w", op, syscall.EINVAL)
}

// walkCall decodes CALL.
func walkCall(function uint32, body []byte, sink CommandSink) error {
	const fixed = callBytes - cmdHeader
	if len(body) < fixed {
		return fmt.Errorf("call with a body of %d bytes: %w", len(body), syscall.EINVAL)
	}
	c := CallCmd{Function: function, Results: binary.LittleEndian.Uint64(body), ArgsAddr: binary.LittleEndian.Uint64(body[8:]),
		ResultBytes: binary.LittleEndian.Uint32(body[16:])}
	n, args := binary.LittleEndian.Uint32(body[20:]), body[fixed:]
	inline := int(n)
	if c.ArgsAddr != 0 {
		c.ArgsBytes, inline = n, 0
	}
	if n > MaxCall || c.ResultBytes > MaxCall || inline > MaxInlineCall || inline > len(args) || len(args)-inline >= bytesPerUnit ||
		c.Results%bytesPerUnit != 0 || (c.Results == 0) != (c.ResultBytes == 0) {
		return fmt.Errorf("call with %d bytes of arguments at 0x%x, %d in the stream, and %d of results at 0x%x: %w", n, c.ArgsAddr, len(args), c.ResultBytes, c.Results, syscall.EINVAL)
	}
	if c.ArgsAddr == 0 {
		c.Args = args[:inline]
	}
	return sink.Call(c)
}

// clusterTogether is the flag of a CLUSTER or YIELDING that is also COOPERATIVE.
const clusterTogether = 1

// walkLaunch decodes LAUNCH, COOPERATIVE, CLUSTER and YIELDING.
func walkLaunch(op uint16, function uint32, body []byte, sink CommandSink) error {
	c := LaunchCmd{Function: function, Cooperative: op == cmdTogether}
	least := launchBytes - cmdHeader
	switch op {
	case cmdCluster:
		least += clusterBytes
	case cmdYielding:
		least += signalBytes + clusterBytes
	}
	if len(body) < least {
		return fmt.Errorf("opcode %d with a body of %d bytes: %w", op, len(body), syscall.EINVAL)
	}
	u32 := func(i int) uint32 { return binary.LittleEndian.Uint32(body[i*4:]) }
	if op == cmdYielding {
		if c.Signal = binary.LittleEndian.Uint64(body); c.Signal == 0 {
			return fmt.Errorf("yielding launch without a signal: %w", syscall.EINVAL)
		}
		body = body[signalBytes:]
	}
	if op == cmdCluster || op == cmdYielding {
		flags := u32(3)
		c.Cluster, c.Cooperative = [3]uint32{u32(0), u32(1), u32(2)}, flags == clusterTogether
		if flags > clusterTogether || op == cmdCluster && c.Cluster == [3]uint32{} {
			return fmt.Errorf("launch in clusters of %v with flags 0x%x: %w", c.Cluster, flags, syscall.EINVAL)
		}
		body = body[clusterBytes:]
	}
	n, params := int(u32(7)), body[launchBytes-cmdHeader:]
	if n > len(params) || len(params)-n >= bytesPerUnit {
		return fmt.Errorf("launch with %d bytes of parameters in %d: %w", n, len(params), syscall.EINVAL)
	}
	c.Grid, c.Block = [3]uint32{u32(0), u32(1), u32(2)}, [3]uint32{u32(3), u32(4), u32(5)}
	c.SharedBytes, c.Params = u32(6), params[:n]
	return sink.Launch(c)
}

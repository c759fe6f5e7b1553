package nvidia

import (
	"fmt"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/gpu/ptx/rewrite"
)

// work is a command made ready for the lane.
type work struct {
	entries []entry
	params  []byte        // of a launch
	fn      *function     // that it launches; nil for another command
	call    *callee       // the library function that it calls, likewise
	graph   *graphPiece   // the commands that it launches as one, likewise
	keeps   *graphRun     // of which the worker is to keep the commands from this one on; nil for none
	bytes   uint64        // that it moves or writes
	local   bool          // they are in VRAM
	cost    time.Duration // that it is expected to take on its engine
	signal  uint64        // gpu.Launch.Signal
	behind  []following   // entries come first that wait for them
	word    uint64        // address of the word that it waits for, on no engine; 0 for none
	portion               // of the launch
}

// single validates a command of a batch, the next one unless its entries are only looked at, and cuts it into entries.
func (c *channel) single(b *batch, i int) (work, error) {
	switch cmd := b.cmds[i].(type) {
	case *gpu.Task:
		if i > 0 {
			return work{}, fmt.Errorf("%w: Task is the first command of a batch", gpu.ErrInvalid)
		}
		return work{}, nil
	case *gpu.Copy:
		return c.prepareCopy(cmd)
	case *gpu.Fill:
		return c.prepareFill(cmd)
	case *gpu.Timestamp:
		return c.prepareTimestamp(cmd)
	case *gpu.Word:
		return c.prepareWord(cmd)
	case *gpu.Launch:
		return c.prepareLaunch(b, cmd)
	case *gpu.Call:
		return c.prepareCall(b, cmd)
	}
	return work{}, fmt.Errorf("%w: unknown command %T", gpu.ErrInvalid, b.cmds[i])
}

func (c *channel) prepareLaunch(b *batch, l *gpu.Launch) (work, error) {
	if l == nil {
		return work{}, fmt.Errorf("%w: nil launch", gpu.ErrInvalid)
	}
	f, ok := l.Func.(*function)
	if !ok || f == nil || f.mod.ctx != c.ctx {
		return work{}, fmt.Errorf("%w: launch of a function that is not of this context", gpu.ErrInvalid)
	}
	if f.mod.closed.Load() {
		return work{}, check.BadLaunch(&f.attrs, "its module is closed")
	}
	if err := check.Launch(&c.ctx.dev.props, &f.attrs, l); err != nil {
		return work{}, err
	}
	if err := c.checkSignal(f, l); err != nil {
		return work{}, err
	}
	entries := b.entry[:]
	if b.started() {
		entries = make([]entry, 1)
	}
	handle, grid, w := f.handle, l.Grid, work{fn: f, cost: f.ran(), params: l.Params, entries: entries, signal: l.Signal, portion: portion{blocks: blocksOf(l)}}
	if f.twin != 0 && l.Signal == 0 && !f.whole(l) {
		if w.portion = c.next(f, l, b.from); w.from > 0 || w.more {
			handle, grid, w.cost = f.twin, [3]uint32{uint32(w.blocks), 1, 1}, f.expects(w.blocks)
			w.params = rewrite.AppendRange(l.Params[:len(l.Params):len(l.Params)], w.from, l.Grid)
		}
	}
	cooperative := uint32(0)
	if l.Cooperative {
		cooperative = 1
	}
	entries[0] = entry{kind: entryLaunch, words: [7]uint64{
		handle, two(grid[0], grid[1]), two(grid[2], l.Block[0]), two(l.Block[1], l.Block[2]),
		two(l.SharedBytes, uint32(len(w.params))), two(l.Cluster[0], l.Cluster[1]), two(l.Cluster[2], cooperative),
	}}
	return w, nil
}

// launches is how many kernels of the batch a work begins.
func (w *work) launches() uint64 {
	switch {
	case w.graph != nil:
		return uint64(w.graph.launches)
	case w.fn != nil && w.from == 0:
		return 1
	}
	return 0
}

// two makes a word of two numbers.
func two(low, high uint32) uint64 { return uint64(low) | uint64(high)<<32 }

// whole reports whether the blocks of a launch need each other.
func (f *function) whole(l *gpu.Launch) bool {
	return l.Cooperative || l.Cluster != [3]uint32{} || f.attrs.Cluster != [3]uint32{}
}

// side is one side of a transfer of rows.
type side struct {
	va, pitch uint64
	write     bool
}

// maxPieces bounds the entries of one transfer: rows that lie in more pieces than
// this are refused.
const maxPieces = 1 << 20

// split cuts a transfer of rows into pieces that the driver can do at one go: one
// row or several whole ones, each side within one mapping.
func (c *channel) split(width, height uint64, sides []side, piece func(row, col, width, height uint64) error) error {
	for row := uint64(0); row < height; {
		// Whole rows at once, if the first and the last lie in one mapping with all between.
		rows, err := c.wholeRows(row, width, height-row, sides)
		if err != nil {
			return err
		}
		if rows > 0 {
			if err := piece(row, 0, width, rows); err != nil {
				return err
			}
			row += rows
			continue
		}
		for col := uint64(0); col < width; {
			n := width - col
			for _, s := range sides {
				got, fault := c.ctx.space.reach(s.va+row*s.pitch+col, n, s.write)
				if fault != nil {
					return fault
				}
				n = min(n, got)
			}
			if err := piece(row, col, n, 1); err != nil {
				return err
			}
			col += n
		}
		row++
	}
	return nil
}

// wholeRows returns how many rows from row on lie in one piece on each side; 0 if
// not even one does.
func (c *channel) wholeRows(row, width, height uint64, sides []side) (uint64, error) {
	rows := height
	for _, s := range sides {
		at := s.va + row*s.pitch
		span := width
		if height > 1 {
			span += (rows - 1) * s.pitch
		}
		got, fault := c.ctx.space.reach(at, span, s.write)
		if fault != nil {
			return 0, fault
		}
		if got < width {
			return 0, nil
		}
		if rows > 1 && s.pitch > 0 {
			rows = min(rows, (got-width)/s.pitch+1)
		}
	}
	return rows, nil
}

// add appends a piece to the work.
func (w *work) add(e entry, bytes uint64) error {
	if len(w.entries) == maxPieces {
		return fmt.Errorf("%w: a transfer of more than %d pieces", gpu.ErrInvalid, maxPieces)
	}
	w.entries = append(w.entries, e)
	w.bytes += bytes
	w.cost = expected(w.bytes, w.local)
	return nil
}

func (c *channel) prepareCopy(cmd *gpu.Copy) (w work, err error) {
	if err := check.Copy(cmd); err != nil {
		return w, err
	}
	if cmd.Width == 0 {
		return w, nil
	}
	src, dst := side{va: cmd.Src, pitch: cmd.SrcPitch}, side{va: cmd.Dst, pitch: cmd.DstPitch, write: true}
	w.local = c.ctx.space.local(cmd.Src) && c.ctx.space.local(cmd.Dst)
	err = c.split(cmd.Width, cmd.Height, []side{src, dst}, func(row, col, width, height uint64) error {
		return w.add(entry{kind: entryCopy, words: [7]uint64{
			dst.va + row*dst.pitch + col, src.va + row*src.pitch + col, width, height, dst.pitch, src.pitch}}, width*height)
	})
	return w, err
}

func (c *channel) prepareFill(cmd *gpu.Fill) (w work, err error) {
	if err := check.Fill(cmd); err != nil {
		return w, err
	}
	if cmd.Width == 0 {
		return w, nil
	}
	size := uint64(cmd.Size)
	pattern := uint64(cmd.Pattern) & (1<<(8*size) - 1)
	w.local = c.ctx.space.local(cmd.Dst)
	err = c.split(cmd.Width, cmd.Height, []side{{va: cmd.Dst, pitch: cmd.Pitch, write: true}}, func(row, col, width, height uint64) error {
		return w.add(entry{kind: entryFill, words: [7]uint64{
			cmd.Dst + row*cmd.Pitch + col, pattern | size<<32, width, height, cmd.Pitch}}, width*height)
	})
	return w, err
}

func (c *channel) prepareTimestamp(cmd *gpu.Timestamp) (w work, err error) {
	if err := check.Timestamp(cmd); err != nil {
		return w, err
	}
	if _, fault := c.ctx.space.reach(cmd.VA, 8, true); fault != nil {
		return w, fault
	}
	return w, w.add(entry{kind: entryTimestamp, words: [7]uint64{cmd.VA}}, 8)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// topFlags are the flags of `pvdrm top`.
type topFlags struct {
	interval time.Duration
	sort     string
	once     bool
	json     bool
}

func newTop() *cobra.Command {
	var f topFlags
	c := &cobra.Command{
		Use:   "top",
		Short: "Show live how guests use the GPU",
		Long: `Show a table of the guests of this user: the share of the compute engine that each
used over the last interval as number and bar, the share that it is entitled to
(a | in the bar), the part of it that is rendering, use of the copy engine, time its commands waited for the
arbiter, launches, kernels and copies that were preempted (STOPS/S), queued batches and
device memory.

Keys: q or ^C quit; s, g, w, l and v sort by share, guest, waiting, launches and
device memory. Where standard output is no terminal, a plain table is printed
for each interval.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			order := topOrder(f.sort)
			const shortest = 100 * time.Millisecond
			switch {
			case order < 0:
				return usageError{fmt.Errorf("--sort: there is no order %q", f.sort)}
			case f.interval < shortest:
				return usageError{fmt.Errorf("--interval: choose at least %v", shortest)}
			}
			in, out := os.Stdin, os.Stdout
			if !f.once && !f.json && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) {
				return f.live(c.Context(), in, out, order)
			}
			return f.plain(c.Context(), out, order)
		},
	}
	var names []string
	for _, o := range topOrders {
		names = append(names, o.name)
	}
	c.Flags().DurationVar(&f.interval, "interval", time.Second, "time over which usage is measured")
	c.Flags().StringVar(&f.sort, "sort", topOrders[0].name, "order: "+strings.Join(names, ", "))
	c.Flags().BoolVar(&f.once, "once", false, "print one table and end")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object for each guest and interval")
	return c
}

func takeSample(ctx context.Context) topSample {
	all := runningBackends(ctx)
	return topSample{time.Now(), all}
}

// plain prints a table for each interval.
func (f *topFlags) plain(ctx context.Context, out io.Writer, order int) error {
	before := takeSample(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.interval):
		}
		after := takeSample(ctx)
		rows := topRows(before, after)
		sortRows(rows, order)
		if err := f.print(out, rows); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		if f.once {
			return nil
		}
		before = after
	}
}

func (f *topFlags) print(out io.Writer, rows []topRow) error {
	if !f.json {
		_, err := fmt.Fprintln(out, strings.Join(topTable(rows, topNumbers), "\n"))
		return err
	}
	enc := json.NewEncoder(out)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// Sequences of terminals (ECMA-48, xterm).
const (
	screenEnter = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	screenLeave = "\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearRight  = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// live shows a table on a terminal until a key or ctx ends it.
func (f *topFlags) live(ctx context.Context, in, out *os.File, order int) (err error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), state)) }()
	if _, err := io.WriteString(out, screenEnter); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer func() { _, _ = io.WriteString(out, screenLeave) }() // if the terminal is gone, so is its screen
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := readKeys(ctx, in)
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	before := takeSample(ctx)
	var rows []topRow
	for {
		sortRows(rows, order)
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		if _, err := io.WriteString(out, paint(topFrame(rows, order, width, height, before.at))); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case key, ok := <-keys:
			var quit bool
			if order, quit = pressed(key, order); quit || !ok {
				return nil
			}
		case <-tick.C:
			after := takeSample(ctx)
			rows, before = topRows(before, after), after
		}
	}
}

// paint is what draws lines on a terminal in raw mode, over what was there.
func paint(lines []string) string {
	return cursorHome + strings.Join(lines, clearRight+"\r\n") + clearRight + clearBelow
}

// pressed does what a key is for.
func pressed(key byte, order int) (newOrder int, quit bool) {
	const ctrlC, ctrlD = 3, 4
	if key == 'q' || key == ctrlC || key == ctrlD {
		return order, true
	}
	if i := topOrder(string(rune(key))); i >= 0 {
		return i, false
	}
	return order, false
}

// readKeys reads keys until the end of in, when it closes the channel, or of ctx.
// Its goroutine ends with the process, as nothing interrupts a read of a terminal.
func readKeys(ctx context.Context, in io.Reader) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		var b [1]byte
		for {
			if _, err := in.Read(b[:]); err != nil {
				return
			}
			select {
			case keys <- b[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return keys
}

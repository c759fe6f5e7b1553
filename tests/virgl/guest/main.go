// Command glprobe renders with hand-written virgl streams on the GPU that this
// guest has, and prints what it found. It exits with 1 if something is not as it
// should be.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"pvdrm/tests/virgl"
)

var commands = map[string]func(*virgl.Canvas) error{
	"clear":  clearCanvas,
	"frames": frames,
	"junk":   junk,
	"hold":   hold,
	"steal":  steal,
	"many":   many,
}

func main() {
	for _, name := range os.Args[1:] {
		if err := run(name); err != nil {
			fmt.Println("FAILED", name+":", err)
			os.Exit(1)
		}
		fmt.Println("ok", name)
	}
}

func run(name string) error {
	f := commands[name]
	if f == nil {
		return fmt.Errorf("no such command")
	}
	c, err := virgl.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// clearCanvas reads the capability sets and paints a few times.
func clearCanvas(c *virgl.Canvas) error {
	caps, err := c.Caps(2, 2, 1024)
	if err != nil {
		return err
	}
	if v := binary.LittleEndian.Uint32(caps); v == 0 || v > 16 {
		return fmt.Errorf("capability set 2 says version %d", v)
	}
	for _, rgb := range [][3]float32{{1, 0, 0.5}, {0, 1, 0}, {0.25, 0.5, 1}} {
		if err := c.Check(rgb[0], rgb[1], rgb[2]); err != nil {
			return err
		}
	}
	return nil
}

// frames measures how long a frame takes, submitted and waited for.
func frames(c *virgl.Canvas) error {
	const n = 200
	stream := c.Paint(1, 1, 0).Bytes()
	if err := c.Submit(stream); err != nil {
		return err
	}
	begin := time.Now()
	for range n {
		if err := c.Submit(stream[24:]); err != nil { // the surface exists
			return err
		}
		if err := c.Wait(); err != nil {
			return err
		}
	}
	fmt.Printf("%.3f ms/frame\n", time.Since(begin).Seconds()*1000/n)
	return nil
}

// junk submits random streams, each from a file of its own.
func junk(*virgl.Canvas) error {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		c, err := virgl.Open()
		if err != nil {
			return err
		}
		b := c.Paint(1, 1, 1).Bytes()
		for range 1 + random.IntN(8) {
			binary.LittleEndian.PutUint32(b[4*random.IntN(len(b)/4):], random.Uint32())
		}
		if err := c.Submit(b); err != nil {
			return err
		}
		if err := c.Wait(); err != nil {
			return err
		}
		c.Close()
	}
	return nil
}

// hold paints until somebody ends it. It tells each time a context is lost.
func hold(c *virgl.Canvas) error {
	for {
		if err := c.Check(1, 0, 0); err != nil {
			fmt.Println("lost:", err)
			return nil
		}
	}
}

// steal draws to a canvas of another context, and reads it.
func steal(mine *virgl.Canvas) error {
	theirs, err := virgl.Open()
	if err != nil {
		return err
	}
	defer theirs.Close()
	if err := theirs.Check(0, 1, 0); err != nil {
		return err
	}
	if err := mine.Submit(theirs.Paint(1, 0, 0).Bytes()); err != nil {
		return err
	}
	if err := mine.Wait(); err != nil {
		return err
	}
	if err := theirs.Fetch(); err != nil {
		return err
	}
	if p := theirs.Pixels[:4]; p[1] != 255 || p[2] != 0 {
		return fmt.Errorf("%w: another context has drawn %v", virgl.ErrPixels, p)
	}
	return nil
}

// many opens more canvases than the host allows, and tells how many of them work.
func many(*virgl.Canvas) error {
	const most = 40
	works := 1 // the one that is open
	for range most - 1 {
		c, err := virgl.Open()
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Check(1, 1, 1); err == nil {
			works++
		} else if !errors.Is(err, virgl.ErrPixels) {
			return err
		}
	}
	fmt.Printf("%d of %d canvases work\n", works, most)
	return nil
}

// Command glscene draws pictures with OpenGL ES 2 on whatever Mesa finds: off screen
// by EGL without a surface, or on a screen by KMS and GBM. It is the same program
// in a guest and on the host, and its pictures depend on the scene, the size and
// the frame alone, so that those of one renderer can be compared with another's.
//
// All calls are made on the main goroutine, which never leaves its thread:
// OpenGL's contexts belong to threads.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"pvdrm/internal/egldevice"
)

const usage = `usage: glscene [flags] SCENE ...     draw scenes, and say how long a frame takes
       glscene compare [flags] A B   compare two PNG files
`

// lastFrame is the number of the frame that is drawn last, and kept.
const lastFrame = 30

// warmUp is how many frames are drawn before time is taken: shaders are compiled
// in them.
const warmUp = 1

func main() {
	runtime.LockOSThread()
	calmRuntime()
	run := drawScenes
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "compare" {
		run, args = comparePictures, args[1:]
	}
	err := run(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "glscene:", err)
		os.Exit(1)
	}
}

func newFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("glscene", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), usage)
		fs.PrintDefaults()
		for _, s := range scenes {
			fmt.Fprintf(fs.Output(), "  %-10s %s\n", s.name, s.text)
		}
	}
	return fs
}

// options are the flags of drawing.
type options struct {
	size    string
	frames  int
	atLeast time.Duration
	out     string
	device  string // of EGL's; "" for Mesa's platform without a surface
	screen  bool
	card    string
	mode    string
	pointer *place // nil for none
	hold    bool
	json    bool
	spin    bool
}

// result is a scene that was drawn; a line of JSON.
type result struct {
	Scene        string  `json:"scene"`
	Renderer     string  `json:"renderer"`
	Screen       bool    `json:"screen"`
	Width        int32   `json:"width"`
	Height       int32   `json:"height"`
	Frames       int     `json:"frames"`
	Milliseconds float64 `json:"ms_per_frame"`
}

func drawScenes(args []string) error {
	var o options
	fs := newFlags()
	fs.StringVar(&o.size, "size", "640x480", "width and height of the picture, off screen")
	fs.IntVar(&o.frames, "frames", 10, "how many frames to draw")
	fs.DurationVar(&o.atLeast, "at-least", 0, "draw more frames until this time has passed")
	fs.StringVar(&o.out, "out", "", "save the last frame to this PNG file; % stands for the scene's name")
	fs.StringVar(&o.device, "device", "", "draw off screen on a device that EGL lists: egl:N, or cuda:N for NVIDIA's as CUDA counts them (default: what Mesa finds)")
	fs.BoolVar(&o.screen, "screen", false, "draw on the screen, by KMS")
	fs.StringVar(&o.card, "card", "/dev/dri/card0", "with -screen: the DRM device")
	fs.StringVar(&o.mode, "mode", "", "with -screen: width and height of the screen's mode, such as 800x600 (default: the one that the screen prefers)")
	fs.Func("pointer", "put a pointer at `X,Y`. Off screen it is drawn into the picture that is saved", func(s string) (err error) {
		o.pointer, err = parsePlace(s)
		return err
	})
	fs.BoolVar(&o.hold, "hold", false, "with -screen: keep the last frame of each scene on the screen until a line is read from standard input")
	fs.BoolVar(&o.json, "json", false, "print results as JSON, one object a line")
	fs.BoolVar(&o.spin, "spin", false, "draw one scene off screen until standard input ends, some frames at once: print ready after the first, and at the end their number and the seconds they took")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var w, h int32
	if n, err := fmt.Sscanf(o.size, "%dx%d", &w, &h); n != 2 || err != nil || w < 1 || h < 1 || w > 8192 || h > 8192 {
		return fmt.Errorf("-size %q: say width and height in pixels, such as 640x480", o.size)
	}
	if o.frames < 1 || fs.NArg() == 0 {
		fs.Usage()
		return errors.New("name at least one scene, and draw at least one frame")
	}
	if o.mode != "" && !o.screen {
		return errors.New("-mode: only with -screen")
	}
	if o.device != "" && o.screen {
		return errors.New("-device: only without -screen")
	}
	if o.spin && (fs.NArg() != 1 || o.screen) {
		return errors.New("-spin: one scene, off screen")
	}
	for _, name := range fs.Args() {
		s, err := findScene(name)
		if err != nil {
			return err
		}
		if err := o.draw(s, w, h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// canvas is where a scene is drawn: a context, and the screen that shows it or nil.
type canvas struct {
	*context
	screen *screen
	w, h   int32
}

// open makes a context: on the screen, which has a size of its own, or off it.
func (o *options) open(w, h int32) (p *canvas, err error) {
	if o.screen {
		sc, err := newScreen(o.card, o.mode)
		if err != nil {
			return nil, err
		}
		return &canvas{context: sc.context, screen: sc, w: int32(sc.kms.width()), h: int32(sc.kms.height())}, nil
	}
	c, err := newContext(o.display, nil, 0)
	if err != nil {
		return nil, err
	}
	if err := c.target(w, h); err != nil {
		c.close()
		return nil, err
	}
	return &canvas{context: c, w: w, h: h}, nil
}

// display opens the display to draw on without a screen.
func (o *options) display(e *eglFunctions) (uintptr, error) {
	if o.device == "" {
		return onPlatform(eglPlatformNothing, 0)(e)
	}
	d, ok, err := egldevice.Parse(o.device)
	if err == nil && !ok {
		err = fmt.Errorf("%q names no device: say %s:N or %s:N", o.device, egldevice.CUDA, egldevice.EGL)
	}
	if err != nil {
		return 0, fmt.Errorf("-device: %w", err)
	}
	display, _, err := d.Display()
	return display, err
}

func (p *canvas) close() {
	if p.screen != nil {
		p.screen.close()
	} else {
		p.context.close()
	}
}

// show ends a frame.
func (p *canvas) show() error {
	if p.screen != nil {
		return p.screen.show()
	}
	p.Finish()
	return nil
}

// draw draws a scene in a context of its own.
func (o *options) draw(s scene, w, h int32) error {
	p, err := o.open(w, h)
	if err != nil {
		return err
	}
	defer p.close()
	p.Viewport(0, 0, p.w, p.h)
	frame, err := s.prepare(p.gles, p.w, p.h)
	if err != nil {
		return err
	}
	if o.spin {
		return p.spin(frame, os.Stdin, os.Stdout)
	}
	took, n, err := o.measure(p, frame)
	if err != nil {
		return err
	}
	if o.pointer != nil && p.screen != nil {
		if err := p.screen.kms.point(*o.pointer); err != nil {
			return err
		}
	}
	r := result{s.name, p.renderer(), o.screen, p.w, p.h, n, took.Seconds() * 1e3 / float64(n)}
	if err := r.print(o.json); err != nil {
		return err
	}
	if o.out != "" {
		if p.screen != nil { // what was shown is not to be read, so draw it once more
			frame(lastFrame)
		}
		m := readPicture(p.gles, p.w, p.h)
		if o.pointer != nil {
			drawPointer(m, *o.pointer)
		}
		if err := o.save(m, s); err != nil {
			return err
		}
	}
	if p.screen != nil && o.hold {
		return waitForLine(os.Stdin)
	}
	return nil
}

// measure draws frames, lastFrame at the end, and returns how long n of them took.
func (o *options) measure(p *canvas, frame func(int)) (took time.Duration, n int, err error) {
	for i := range warmUp {
		frame(i)
		if err := p.show(); err != nil {
			return 0, 0, err
		}
	}
	start := time.Now()
	for ; n < o.frames || time.Since(start) < o.atLeast; n++ {
		frame(lastFrame + 1 - o.frames + n)
		if err := p.show(); err != nil {
			return 0, 0, err
		}
	}
	took = time.Since(start)
	if n > o.frames { // the picture shows lastFrame all the same
		frame(lastFrame)
		if err := p.show(); err != nil {
			return 0, 0, err
		}
	}
	return took, n, p.check()
}

// waitForLine returns at the end of a line, or of the input.
func waitForLine(r io.Reader) error {
	var b [1]byte
	for b[0] != '\n' {
		if _, err := r.Read(b[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (o *options) save(m image.Image, s scene) error {
	return writePicture(strings.ReplaceAll(o.out, "%", s.name), m)
}

func (r result) print(asJSON bool) error {
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	where := "off screen"
	if r.Screen {
		where = "on the screen"
	}
	_, err := fmt.Printf("%-10s %8.2f ms/frame, %d frames of %dx%d %s, on %s\n", r.Scene, r.Milliseconds, r.Frames, r.Width, r.Height, where, r.Renderer)
	return err
}

func comparePictures(args []string) error {
	fs := newFlags()
	tolerance := fs.Int("tolerance", 0, "how much a channel of a pixel may differ, 0 to 255")
	share := fs.Float64("outside", 0, "percentage of pixels that may differ by more")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 2 {
		fs.Usage()
		return errors.New("compare takes two files")
	}
	a, err := loadPicture(fs.Arg(0))
	if err != nil {
		return err
	}
	b, err := loadPicture(fs.Arg(1))
	if err != nil {
		return err
	}
	d, err := compare(a, b, *tolerance)
	if err != nil {
		return err
	}
	if float64(d.outside)*100 > *share*float64(d.pixels) {
		return fmt.Errorf("%s and %s: %v", fs.Arg(0), fs.Arg(1), d)
	}
	fmt.Println(d)
	return nil
}

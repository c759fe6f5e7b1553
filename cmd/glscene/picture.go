package main

import (
	"bufio"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
)

// readPicture reads what was drawn. OpenGL's rows go from bottom to top.
func readPicture(g *gles, w, h int32) *image.NRGBA {
	pixels := make([]byte, 4*w*h)
	g.ReadPixels(0, 0, w, h, glRGBA, glUnsignedByte, pixels)
	m := image.NewNRGBA(image.Rect(0, 0, int(w), int(h)))
	row := int(4 * w)
	for y := range int(h) {
		copy(m.Pix[(int(h)-1-y)*row:][:row], pixels[y*row:])
	}
	for i := 3; i < len(m.Pix); i += 4 {
		m.Pix[i] = 255 // a screen has no alpha
	}
	return m
}

func writePicture(path string, m image.Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	err = errors.Join(png.Encode(w, m), w.Flush())
	return errors.Join(err, f.Close())
}

// loadPicture reads a PNG file.
func loadPicture(path string) (*image.NRGBA, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := png.Decode(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := image.NewNRGBA(image.Rectangle{Max: m.Bounds().Size()})
	draw.Draw(out, out.Rect, m, m.Bounds().Min, draw.Src)
	return out, nil
}

// difference is how two pictures of the same size differ.
type difference struct {
	pixels, different int // of different colour
	outside           int // with a channel that differs by more than the tolerance
	most              int // largest difference of a channel
}

func (d difference) String() string {
	return fmt.Sprintf("%d of %d pixels differ, %d by more than the tolerance, at most by %d", d.different, d.pixels, d.outside, d.most)
}

// compare compares the colours of two pictures.
func compare(a, b *image.NRGBA, tolerance int) (d difference, err error) {
	if a.Rect != b.Rect {
		return d, fmt.Errorf("one picture has %v pixels, the other %v", a.Rect.Size(), b.Rect.Size())
	}
	for i := 0; i < len(a.Pix); i += 4 {
		most := 0
		for c := range 3 {
			most = max(most, int(a.Pix[i+c])-int(b.Pix[i+c]), int(b.Pix[i+c])-int(a.Pix[i+c]))
		}
		d.pixels++
		if most > 0 {
			d.different++
		}
		if most > tolerance {
			d.outside++
		}
		d.most = max(d.most, most)
	}
	return d, nil
}

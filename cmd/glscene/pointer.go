package main

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
)

// pointerSize is the width and the height of a pointer's picture: what virtio-gpu takes.
const pointerSize = 64

// place is where a pointer's picture has its upper left corner.
type place struct{ x, y int32 }

func parsePlace(s string) (*place, error) {
	var p place
	if n, err := fmt.Sscanf(s+"\n", "%d,%d\n", &p.x, &p.y); n != 2 || err != nil {
		return nil, errors.New("say X,Y in pixels, such as 100,50")
	}
	return &p, nil
}

// drawPointer draws the pointer into a picture.
func drawPointer(m draw.Image, at place) {
	p := image.Pt(int(at.x), int(at.y))
	draw.Draw(m, image.Rectangle{p, p.Add(image.Pt(pointerSize, pointerSize))}, pointerPicture(), image.Point{}, draw.Over)
}

// pointerPicture is an arrow, white with a black edge, and the half of a shadow behind it. Its colours are
// multiplied with their alpha, as planes want them.
func pointerPicture() *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, pointerSize, pointerSize))
	arrow := func(x, y, edge int) bool {
		return x >= edge && y >= edge && y < 40-2*edge && x <= y-2*edge && x <= 28-edge
	}
	for y := range pointerSize {
		for x := range pointerSize {
			switch {
			case arrow(x, y, 2):
				m.SetRGBA(x, y, color.RGBA{255, 255, 255, 255})
			case arrow(x, y, 0):
				m.SetRGBA(x, y, color.RGBA{0, 0, 0, 255})
			case arrow(x-8, y-8, 0):
				m.SetRGBA(x, y, color.RGBA{0, 0, 40, 128})
			}
		}
	}
	return m
}

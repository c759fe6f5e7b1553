package virtgpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"
)

// Every command has a name, a handler and a fixed part that fits its buffer.
func TestCommandTable(t *testing.T) {
	names := make(map[string]bool)
	for typ, c := range commands {
		require.NotEmpty(t, c.name)
		require.False(t, names[c.name], c.name)
		names[c.name] = true
		require.NotNil(t, c.run, c.name)
		require.LessOrEqual(t, c.size, maxBody, c.name)
		require.Less(t, c.queue, queueCount, c.name)
		require.Equal(t, typ >= cmdUpdateCursor, c.queue == cursorQueue, c.name)
		require.GreaterOrEqual(t, c.resp, uint32(respOK), c.name)
		require.Less(t, c.resp, uint32(respErrUnspec), c.name)
	}
}

func TestEDID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.Uint32Range(1, MaxDisplay).Draw(t, "width")
		h := rapid.Uint32Range(1, MaxDisplay).Draw(t, "height")
		e := edid(w, h)
		var sum byte
		for _, b := range e {
			sum += b
		}
		require.Zero(t, sum, "checksum")
		require.Equal(t, []byte{0, 255, 255, 255, 255, 255, 255, 0}, e[:8])
		require.Equal(t, []byte{1, 4}, e[18:20], "version")
		d := e[54:72]
		require.Equal(t, w, uint32(d[2])|uint32(d[4]>>4)<<8)
		require.Equal(t, h, uint32(d[5])|uint32(d[7]>>4)<<8)
		hBlank, vBlank := uint32(d[3])|uint32(d[4]&15)<<8, uint32(d[6])|uint32(d[7]&15)<<8
		clock := uint64(binary.LittleEndian.Uint16(d)) * 10000
		require.Positive(t, clock)
		// 60 pictures a second, or as many as the largest clock allows.
		rate := float64(clock) / float64((w+hBlank)*(h+vBlank))
		require.LessOrEqual(t, rate, 60.0+10000/float64((w+hBlank)*(h+vBlank)))
		if clock < 655350000 {
			require.Greater(t, rate, 55.0)
		}
		front, sync := uint32(d[8]), uint32(d[9])
		require.Less(t, front+sync, hBlank)
		require.Less(t, uint32(d[10]>>4+d[10]&15), vBlank)
		for _, at := range []int{72, 90, 108} {
			require.Zero(t, e[at], "descriptors are no timings")
		}
		require.Equal(t, "PVDRM\n", string(e[77:83]))
		require.Zero(t, e[35]&^0x21)
		require.Zero(t, e[36]&^0x08)
		require.Zero(t, e[37])
		require.Equal(t, w > 640 && h >= 480 || w >= 640 && h > 480, e[35]&0x20 != 0)
		for i := 38; i < 54; i += 2 { // standard timings
			if e[i] == 1 && e[i+1] == 1 {
				continue
			}
			mw := (uint32(e[i]) + 31) * 8
			mh := mw * []uint32{10, 3, 4, 9}[e[i+1]>>6] / []uint32{16, 4, 5, 16}[e[i+1]>>6]
			require.Zero(t, e[i+1]&0x3f, "60 pictures a second")
			require.LessOrEqual(t, mw, w)
			require.LessOrEqual(t, mh, h)
			require.False(t, mw == w && mh == h)
			require.Contains(t, []string{"1280x720", "1280x800", "1280x1024", "1440x900", "1600x900", "1680x1050", "1920x1080", "1920x1200"}, fmt.Sprintf("%dx%d", mw, mh))
		}
	})
	small, large := edid(640, 480), edid(1920, 1080)
	require.Equal(t, []byte{0, 0, 0, 1, 1}, small[35:40])
	require.Equal(t, []byte{0x21, 0x08, 0, 0x81, 0xc0}, large[35:40])
	require.Equal(t, []byte{1, 1, 1, 1}, large[50:54], "1920x1080 is preferred, and 1920x1200 too high")
}

func TestRect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		num := rapid.Uint32Range(0, 20)
		draw := func(name string) rect {
			return rect{num.Draw(t, name+".x"), num.Draw(t, name+".y"), num.Draw(t, name+".w"), num.Draw(t, name+".h")}
		}
		a, b := draw("a"), draw("b")
		has := func(r rect, x, y uint32) bool { return x >= r.x && x < r.x+r.w && y >= r.y && y < r.y+r.h }
		both := a.intersect(b)
		n := uint32(0)
		for x := range uint32(40) {
			for y := range uint32(40) {
				in := has(a, x, y) && has(b, x, y)
				require.Equal(t, in, has(both, x, y))
				if in {
					n++
				}
			}
		}
		require.Equal(t, n, both.w*both.h)
		require.Equal(t, n == 0, both.empty())
	})
	require.False(t, rect{^uint32(0), 0, 2, 1}.inside(16, 16))
	require.True(t, rect{15, 15, 1, 1}.inside(16, 16))
	require.False(t, rect{16, 0, 1, 1}.inside(16, 16))
}

// An hour of a guest whose commands are all refused, with names of contexts that are as long as they
// may be, is less than a tenth of what a guest may cause.
func TestHourOfRefusedCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written bytes.Buffer
		d, err := New(Config{Log: zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
			zapcore.AddSync(&written), zapcore.InfoLevel))})
		require.NoError(t, err)
		for start := time.Now(); time.Since(start) < time.Hour; time.Sleep(time.Second) {
			for range 100 {
				require.EqualValues(t, respErrUnspec, d.refused("SUBMIT_3D", errors.New(strings.Repeat("\u202e", 4096))))
			}
		}
		require.Less(t, written.Len(), 100_000)
		require.EqualValues(t, 360_000, d.Stats().Failed)
	})
}

func TestQuota(t *testing.T) {
	q := quota{max: 10}
	require.True(t, q.take(7))
	require.False(t, q.take(4))
	require.True(t, q.take(3))
	q.give(10)
	require.True(t, q.take(10))
	require.False(t, q.take(1))
}

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"structs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mode setting ioctls (include/uapi/drm/drm.h and drm_mode.h).
const (
	ioctlGetResources = 0xc04064a0
	ioctlSetCRTC      = 0xc06864a2
	ioctlGetEncoder   = 0xc01464a6
	ioctlGetConnector = 0xc05064a7
	ioctlAddFB        = 0xc01c64ae
	ioctlPageFlip     = 0xc01864b0

	ioctlCursor     = 0xc01c64a3
	ioctlCreateDumb = 0xc02064b2
	ioctlMapDumb    = 0xc01064b3

	cursorSet  = 1
	cursorMove = 2

	modeConnected  = 1
	modeFlipEvent  = 1
	eventFlipDone  = 2
	maxModeObjects = 64
)

// modeInfo is struct drm_mode_modeinfo.
type modeInfo struct {
	_                                             structs.HostLayout
	Clock                                         uint32 // kHz
	HDisplay, HSyncStart, HSyncEnd, HTotal, HSkew uint16
	VDisplay, VSyncStart, VSyncEnd, VTotal, VScan uint16
	VRefresh, Flags, Type                         uint32
	Name                                          [32]byte
}

func (m *modeInfo) size() string { return fmt.Sprintf("%dx%d", m.HDisplay, m.VDisplay) }

// modeResources is struct drm_mode_card_res.
type modeResources struct {
	_                                            structs.HostLayout
	FBs, CRTCs, Connectors, Encoders             uint64 // user addresses
	NumFBs, NumCRTCs, NumConnectors, NumEncoders uint32
	MinWidth, MaxWidth, MinHeight, MaxHeight     uint32
}

// modeConnector is struct drm_mode_get_connector.
type modeConnector struct {
	_                                            structs.HostLayout
	Encoders, Modes, Properties, Values          uint64 // user addresses
	NumModes, NumProperties, NumEncoders         uint32
	Encoder, Connector, Type, TypeNumber         uint32
	Connection, MMWidth, MMHeight, Subpixel, Pad uint32
}

// modeEncoder is struct drm_mode_get_encoder.
type modeEncoder struct {
	_                                                  structs.HostLayout
	Encoder, Type, CRTC, PossibleCRTCs, PossibleClones uint32
}

// modeCRTC is struct drm_mode_crtc.
type modeCRTC struct {
	_                    structs.HostLayout
	Connectors           uint64 // user address
	NumConnectors, CRTC  uint32
	FB, X, Y             uint32
	GammaSize, ModeValid uint32
	Mode                 modeInfo
}

// modeFB is struct drm_mode_fb_cmd.
type modeFB struct {
	_                                            structs.HostLayout
	FB, Width, Height, Pitch, BPP, Depth, Handle uint32
}

// modeFlip is struct drm_mode_crtc_page_flip.
type modeFlip struct {
	_                         structs.HostLayout
	CRTC, FB, Flags, Reserved uint32
	UserData                  uint64
}

// modeCursor is struct drm_mode_cursor.
type modeCursor struct {
	_             structs.HostLayout
	Flags, CRTC   uint32
	X, Y          int32
	Width, Height uint32
	Handle        uint32
}

// modeDumb is struct drm_mode_create_dumb.
type modeDumb struct {
	_                         structs.HostLayout
	Height, Width, BPP, Flags uint32
	Handle, Pitch             uint32
	Size                      uint64
}

// modeMap is struct drm_mode_map_dumb.
type modeMap struct {
	_           structs.HostLayout
	Handle, Pad uint32
	Offset      uint64
}

// kms is an output of a card: a connector, one of its modes and a CRTC for it.
type kms struct {
	file      *os.File
	connector uint32
	crtc      uint32
	mode      modeInfo
}

func (k *kms) width() uint32  { return uint32(k.mode.HDisplay) }
func (k *kms) height() uint32 { return uint32(k.mode.VDisplay) }

// openKMS finds the first connected output of a card that has the mode (WxH; empty: whatever it prefers).
func openKMS(card, mode string) (*kms, error) {
	// Without O_NONBLOCK, so that reading waits for events.
	fd, err := unix.Open(card, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", card, err)
	}
	k := &kms{file: os.NewFile(uintptr(fd), card)}
	var pin runtime.Pinner
	defer pin.Unpin()
	var crtcs, connectors [maxModeObjects]uint32
	res := modeResources{NumCRTCs: maxModeObjects, NumConnectors: maxModeObjects, CRTCs: address(&pin, &crtcs[0]), Connectors: address(&pin, &connectors[0])}
	err = k.ioctl(ioctlGetResources, unsafe.Pointer(&res)) // the kernel reads and writes res and both arrays
	if err != nil {
		return nil, fmt.Errorf("the outputs of %s: %w", card, err)
	}
	for _, id := range connectors[:min(res.NumConnectors, maxModeObjects)] {
		if err = k.connect(id, mode, crtcs[:min(res.NumCRTCs, maxModeObjects)]); err == nil {
			return k, nil
		}
	}
	return nil, fmt.Errorf("no output of %s can be used (%d connectors): %w", card, res.NumConnectors, err)
}

// connect uses a connector, if a screen is there that has the mode.
func (k *kms) connect(id uint32, mode string, crtcs []uint32) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	var modes [maxModeObjects]modeInfo
	var encoders [maxModeObjects]uint32
	// The first call looks at the connector anew; then the counts are known.
	c := modeConnector{Connector: id}
	if err := k.ioctl(ioctlGetConnector, unsafe.Pointer(&c)); err != nil { // a struct of the kernel's size
		return err
	}
	if c.Connection != modeConnected || c.NumModes == 0 || c.NumModes > maxModeObjects || c.NumEncoders > maxModeObjects {
		return fmt.Errorf("connector %d: state %d, %d modes", id, c.Connection, c.NumModes)
	}
	c.NumProperties = 0
	c.Modes, c.Encoders = address(&pin, &modes[0]), address(&pin, &encoders[0])
	err := k.ioctl(ioctlGetConnector, unsafe.Pointer(&c)) // fills the arrays, which have room for the counts
	if err != nil {
		return err
	}
	k.connector, k.mode = id, modes[0] // the preferred one comes first
	if mode != "" {
		known := modes[:min(c.NumModes, maxModeObjects)]
		i := slices.IndexFunc(known, func(m modeInfo) bool { return m.size() == mode })
		if i < 0 {
			var sizes []string
			for _, m := range known {
				sizes = append(sizes, m.size())
			}
			return fmt.Errorf("the screen has no mode %s, only %s", mode, strings.Join(slices.Compact(sizes), ", "))
		}
		k.mode = known[i]
	}
	for _, e := range encoders[:min(c.NumEncoders, maxModeObjects)] {
		enc := modeEncoder{Encoder: e}
		if err := k.ioctl(ioctlGetEncoder, unsafe.Pointer(&enc)); err != nil { // a struct of the kernel's size
			return err
		}
		for i, crtc := range crtcs {
			if enc.PossibleCRTCs&(1<<i) != 0 {
				k.crtc = crtc
				return nil
			}
		}
	}
	return errors.New("no CRTC drives it")
}

// addFramebuffer makes a buffer of the mode's size, XRGB8888, fit to be shown.
func (k *kms) addFramebuffer(handle, pitch uint32) (uint32, error) {
	fb := modeFB{Width: k.width(), Height: k.height(), Pitch: pitch, BPP: 32, Depth: 24, Handle: handle}
	if err := k.ioctl(ioctlAddFB, unsafe.Pointer(&fb)); err != nil { // a struct of the kernel's size
		return 0, fmt.Errorf("making a framebuffer: %w", err)
	}
	return fb.FB, nil
}

// set sets the mode and shows a framebuffer.
func (k *kms) set(fb uint32) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	c := modeCRTC{Connectors: address(&pin, &k.connector), NumConnectors: 1, CRTC: k.crtc, FB: fb, ModeValid: 1, Mode: k.mode}
	err := k.ioctl(ioctlSetCRTC, unsafe.Pointer(&c)) // the kernel reads c and one connector
	if err != nil {
		return fmt.Errorf("setting the mode %dx%d: %w", k.width(), k.height(), err)
	}
	return nil
}

// flip shows another framebuffer, and waits until it is on the screen.
func (k *kms) flip(fb uint32) error {
	f := modeFlip{CRTC: k.crtc, FB: fb, Flags: modeFlipEvent}
	if err := k.ioctl(ioctlPageFlip, unsafe.Pointer(&f)); err != nil { // a struct of the kernel's size
		return fmt.Errorf("flipping pages: %w", err)
	}
	for b := make([]byte, 1024); ; { // struct drm_event: type u32, length u32
		n, err := k.file.Read(b)
		if err != nil {
			return fmt.Errorf("waiting for a page flip: %w", err)
		}
		if n >= 8 && binary.NativeEndian.Uint32(b) == eventFlipDone {
			return nil
		}
	}
}

// point shows the pointer. It stays until the card is closed.
func (k *kms) point(at place) error {
	m := pointerPicture()
	d := modeDumb{Width: pointerSize, Height: pointerSize, BPP: 32}
	if err := k.ioctl(ioctlCreateDumb, unsafe.Pointer(&d)); err != nil { // a struct of the kernel's size
		return fmt.Errorf("making a pointer: %w", err)
	}
	where := modeMap{Handle: d.Handle}
	if err := k.ioctl(ioctlMapDumb, unsafe.Pointer(&where)); err != nil { // a struct of the kernel's size
		return fmt.Errorf("making a pointer: %w", err)
	}
	pix, err := unix.Mmap(int(k.file.Fd()), int64(where.Offset), int(d.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("making a pointer: %w", os.NewSyscallError("mmap", err))
	}
	for y := range pointerSize {
		for x := range pointerSize {
			c := m.RGBAAt(x, y)
			binary.LittleEndian.PutUint32(pix[y*int(d.Pitch)+4*x:], uint32(c.A)<<24|uint32(c.R)<<16|uint32(c.G)<<8|uint32(c.B)) // ARGB8888
		}
	}
	if err := unix.Munmap(pix); err != nil {
		return fmt.Errorf("making a pointer: %w", os.NewSyscallError("munmap", err))
	}
	c := modeCursor{Flags: cursorSet | cursorMove, CRTC: k.crtc, X: at.x, Y: at.y, Width: pointerSize, Height: pointerSize, Handle: d.Handle}
	if err := k.ioctl(ioctlCursor, unsafe.Pointer(&c)); err != nil { // a struct of the kernel's size
		return fmt.Errorf("showing a pointer: %w", err)
	}
	return nil
}

func (k *kms) ioctl(request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, k.file.Fd(), request, uintptr(arg)) // arg lives until the call is over
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR && errno != unix.EAGAIN {
			return errno
		}
	}
}

// address is where v lies, as ioctls take it in a struct, until pin is unpinned.
func address[T any](pin *runtime.Pinner, v *T) uint64 {
	pin.Pin(v)
	return uint64(uintptr(unsafe.Pointer(v))) // pinned: it does not move
}

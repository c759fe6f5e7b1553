package nvidia

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// A worker that compiles has a CUDA context, because the driver links for that of the calling
// thread, and nothing in it. One thread does all.

// startCompiler makes the CUDA context, and has the driver load all that it compiles with.
func (w *worker) startCompiler() (gpu.Properties, error) {
	if err := w.retain(); err != nil {
		return gpu.Properties{}, err
	}
	_, err := w.drv.compile([]byte(stampSource))
	return gpu.Properties{}, err
}

// serveCompiler compiles until the backend is gone.
func (w *worker) serveCompiler() error {
	for {
		var q request
		err := q.receive(w.link)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cuda compiler: %w", err)
		}
		var r reply
		if q.Op != opCompile {
			err = fmt.Errorf("unknown request %d", q.Op)
		} else if r.Image, err = w.drv.compile(q.Image); len(r.Image) > q.Most {
			err = &driverError{Call: "cuLinkComplete", Code: resultTooLarge, Name: fmt.Sprintf("machine code of %d bytes; for this source there may be %d", len(r.Image), q.Most)}
			r.Image = nil
		}
		r.Err = asDriverError("compiling", err)
		if err := r.send(w.link); err != nil {
			return fmt.Errorf("cuda compiler: %w", err)
		}
		w.link.answered(&q)
	}
}

// compile turns PTX into what the GPU of the current context runs.
func (d *driver) compile(source []byte) (image []byte, err error) {
	const logBytes = 8 << 10
	log, err := unix.Mmap(-1, 0, logBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(log) }() // our own mapping; cannot fail
	options := []int32{jitErrorLog, jitErrorLogBytes}
	values := []uintptr{uintptr(addressOf(log)), logBytes}
	var state uintptr
	var pin runtime.Pinner // the driver reads them until the link ends
	defer pin.Unpin()
	pin.Pin(&options[0])
	pin.Pin(&values[0])
	if err := d.check("cuLinkCreate", d.linkCreate(uint32(len(options)), &options[0], &values[0], &state)); err != nil {
		return nil, err
	}
	defer d.linkDestroy(state)
	source = append(source, 0) // the driver wants a C string
	err = d.check("cuLinkAddData", d.linkAddData(state, inputPTX, &source[0], uint64(len(source)), "module", 0, nil, nil))
	var cubin uintptr
	var size uint64
	if err == nil {
		err = d.check("cuLinkComplete", d.linkComplete(state, &cubin, &size))
	}
	if err != nil {
		e := err.(*driverError) // check makes no other
		e.Text = strings.TrimSpace(unix.ByteSliceToString(log))
		return nil, e
	}
	return append([]byte(nil), bytesAt(uint64(cubin), size)...), nil
}

package nvidia

// reachPeers finds out which of the guest's other GPUs have memory that this one reaches, a bit for each. It maps a
// page of each such GPU, and writes to it: libcuda then has all that it opens and makes for the other GPU before the
// worker is confined. The page stays mapped, because libcuda gives up what it made when nothing of the other GPU is.
func (w *worker) reachPeers() (reached uint64, err error) {
	at := w.scratch + scratchBytes()
	for i, number := range w.peerNumbers {
		device := int32(-1)
		switch ok, err := w.reachPeer(number, at, &device); {
		case err != nil:
			return 0, err
		case ok:
			reached |= 1 << i
		default:
			device = -1
		}
		w.peers, at = append(w.peers, device), at+vramPage
	}
	return reached, nil
}

// reachPeer tries one of them. An error is one after which the worker is of no use.
func (w *worker) reachPeer(number int32, at uint64, device *int32) (ok bool, err error) {
	d, can := w.drv, int32(0)
	if d.deviceGet(device, number) != resultOK || d.deviceCanAccessPeer(&can, w.device, *device) != resultOK || can == 0 {
		return false, nil
	}
	page, err := w.makeChunks(1, 1, *device)
	if err != nil {
		return false, nil // its memory is full, perhaps
	}
	defer w.free(page) // the mapping keeps it
	if w.open(page, placed{va: at, n: 1, access: accessReadWrite}) != nil {
		return false, nil
	}
	if err := d.check("cuMemsetD32Async", d.memsetD32Async(at, 0, vramPage/4, w.control)); err != nil {
		return false, err
	}
	return true, d.check("cuStreamSynchronize", d.streamSynchronize(w.control))
}

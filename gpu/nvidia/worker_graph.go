package nvidia

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// keptGraph is a graph that a worker is given, one entry after the other, or has.
type keptGraph struct {
	left    int // entries that are still to come
	entries []entry
	params  []byte // of all entries, one behind the other
	ends    []int  // of those of each entry
	exec    uintptr
}

// graphsWork makes a graph of the kinds of commands that there are, and launches it: a worker that is confined later
// finds then what the driver opens for graphs.
func (p *path) graphsWork(stream uintptr, cmds []entry) error {
	if p.w.drv.graphLaunch == nil {
		return errors.New("the driver has none")
	}
	k := &keptGraph{}
	for i := range cmds {
		k.add(&cmds[i], nil)
	}
	if code := p.capture(k, stream); code != resultOK {
		return p.w.drv.check("making a graph", code)
	}
	code := p.w.drv.graphLaunch(k.exec, stream)
	if code == resultOK {
		code = p.w.drv.streamSynchronize(stream)
	}
	p.forget(k)
	return p.w.drv.check("launching a graph", code)
}

// warmGraphs finds out whether work can become graphs of the driver.
func (p *path) warmGraphs(stream uintptr, cmds []entry) {
	err := p.graphsWork(stream, cmds)
	if p.graphs = err == nil; err != nil {
		fmt.Fprintln(os.Stderr, "pvdrm: cuda worker: graphs of guests run as single commands:", err)
	}
}

// begin starts an entry and keeps it, if it is to become a graph. What the driver does for the graph is done before
// the fence of the command, so the backend knows that the worker has to do.
func (p *path) begin(e *entry, params []byte, s *stream) result {
	if e.kind == entryKeep {
		p.keep(e.words[0], e.words[1], s)
		return resultOK
	}
	code := p.enqueue(e, params, s.handle)
	if code == resultOK && s.keeping != nil {
		code = p.took(s, e, params)
	}
	return code
}

// keep begins to keep entries of a channel for the graph of a slot.
func (p *path) keep(slot, n uint64, s *stream) {
	if slot >= graphSlots || n > graphEntries {
		return
	}
	p.forget(p.kept[slot])
	s.keeping = &keptGraph{left: int(n)}
	p.kept[slot] = s.keeping
}

// add keeps an entry.
func (k *keptGraph) add(e *entry, params []byte) {
	k.entries = append(k.entries, *e)
	k.params = append(k.params, params[:min(e.paramBytes(), len(params))]...)
	k.ends = append(k.ends, len(k.params))
	k.left--
}

// paramBytes is how many bytes of parameters belong to an entry.
func (e *entry) paramBytes() int {
	switch e.kind {
	case entryLaunch:
		return int(min(e.words[4]>>32, maxParamBytes))
	case entryCall:
		if e.words[0] == 0 {
			return int(min(e.words[1], maxParamBytes))
		}
	}
	return 0
}

// took keeps an entry that was started. With the last one it makes the graph.
func (p *path) took(s *stream, e *entry, params []byte) result {
	k := s.keeping
	k.add(e, params)
	if k.left > 0 {
		return resultOK
	}
	s.keeping = nil
	if !slices.Contains(p.kept[:], k) { // its slot has another one
		return resultOK
	}
	if code := p.capture(k, s.handle); code.sticky() {
		return code
	}
	return resultOK // what the driver refuses is started one by one
}

// each starts what was kept, one entry after the other.
func (p *path) each(k *keptGraph, stream uintptr) result {
	from := 0
	for i := range k.entries {
		clear(p.scratch[:8])
		copy(p.scratch, k.params[from:k.ends[i]])
		from = k.ends[i]
		if code := p.enqueue(&k.entries[i], p.scratch, stream); code != resultOK {
			return code
		}
	}
	return resultOK
}

// capture has the driver capture what was kept, and make a graph of it that can be launched.
func (p *path) capture(k *keptGraph, stream uintptr) result {
	d := p.w.drv
	if d.graphLaunch == nil {
		return resultInvalidValue
	}
	if code := d.streamBeginCapture(stream, captureRelaxed); code != resultOK {
		return code
	}
	var g uintptr
	p.capturing = true
	code := p.each(k, stream)
	p.capturing = false
	if end := d.streamEndCapture(stream, &g); code == resultOK {
		code = end
	}
	if code == resultOK {
		if code = d.graphInstantiate(&k.exec, g); code != resultOK {
			k.exec = 0
		}
	}
	if g != 0 {
		d.graphDestroy(g) // our own; what it is needed for was copied
	}
	return code
}

// launchGraph launches the graph of a slot, or starts what was kept for it one by one.
func (p *path) launchGraph(slot uint64, stream uintptr) result {
	if slot >= graphSlots || p.kept[slot] == nil || p.kept[slot].left > 0 {
		return resultInvalidValue
	}
	l, k := p.w.lane, p.kept[slot]
	if k.exec != 0 {
		code := p.w.drv.graphLaunch(k.exec, stream)
		if code == resultOK || code.sticky() {
			l.store(offGraphs, l.load(offGraphs)+1)
			return code
		}
		p.forget(k)
	}
	l.store(offGraphsApart, l.load(offGraphsApart)+1)
	return p.each(k, stream)
}

// forget frees the driver's graph, if there is one. Launches of it go on.
func (p *path) forget(k *keptGraph) {
	if k != nil && k.exec != 0 {
		p.w.drv.graphExecDestroy(k.exec) // our own
		k.exec = 0
	}
}

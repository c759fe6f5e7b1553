package virtgpu

import "sync"

// order keeps commands apart that must not pass each other, so that no other command has to wait.
//
// Most commands end when they have run. Those that take pages away end later, when the context
// is done with them; so does the end of a context. Such an operation holds what it is about until
// then:
//
//	          is about nothing that is held
//	          or that an earlier command waits for
//	arrival ─────────────────────────────────────► it runs ──► it has ended
//	   │                                            ▲    │          ▲
//	   │ otherwise                    it is the first│    │ begin    │ end
//	   ▼                              to wait for all│    ▼          │
//	waiting ─────────────────────────── it is about ─┘   an operation is under way
//
// A command that waits keeps its place in the guest's queue, which bounds their number. Of those
// that are about the same subject each waits for the earlier ones, also where it would not have
// to. So the oldest waits for operations only, and operations wait for no command.
type order struct {
	mu     sync.Mutex
	places map[subject]*place // of what is held or waited for
	held   int                // operations under way
	kept   int                // bytes of commands that wait
	ready  []*request         // may run now; still in their places
	run    func()             // runs those that are ready, on a goroutine of its own
	runs   bool               // it does
	idle   sync.Cond          // held became 0
}

// maxKept bounds the bytes that commands which wait have after their fixed parts.
const maxKept = 8 << 20

// subject is what commands are about: a context, a resource, or a resource in a context.
type subject struct{ ctx, resource uint32 }

// claim is a subject that a command or an operation needs, alone or together with others.
type claim struct {
	subject
	alone bool
}

// place is what there is about a subject.
type place struct {
	alone, shared int        // operations that hold it
	waiting       []*request // in the order of arrival
}

// init makes o ready for use.
func (o *order) init(run func()) {
	o.run = run
	o.places = make(map[subject]*place)
	o.idle.L = &o.mu
}

// place finds or makes a place. Precondition: o.mu is held.
func (o *order) place(n subject) *place {
	p := o.places[n]
	if p == nil {
		p = &place{}
		o.places[n] = p
	}
	return p
}

// tidy forgets a place that nothing is about. Precondition: o.mu is held.
func (o *order) tidy(n subject) {
	if p := o.places[n]; p != nil && p.alone == 0 && p.shared == 0 && len(p.waiting) == 0 {
		delete(o.places, n)
	}
}

// free reports whether r, which may wait already, can run. Precondition: o.mu is held.
func (o *order) free(r *request) bool {
	for _, c := range r.claims {
		p := o.places[c.subject]
		if p == nil {
			continue
		}
		if p.alone > 0 || c.alone && p.shared > 0 || len(p.waiting) > 0 && p.waiting[0] != r {
			return false
		}
	}
	return true
}

// admits reports whether a command that has just arrived can run. What is free stays free until
// the next command runs, because only commands begin operations.
func (o *order) admits(r *request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.places) == 0 {
		return true // in nearly all cases
	}
	r.claims = r.cmd.about.claims(r)
	return o.free(r)
}

// keep takes n bytes for a command that is about to wait, if there may be so many.
func (o *order) keep(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n > maxKept-o.kept {
		return false
	}
	o.kept += n
	return true
}

// wait appends a command to those that wait.
func (o *order) wait(r *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range r.claims {
		p := o.place(c.subject)
		p.waiting = append(p.waiting, r)
	}
	o.look(r) // an operation may have ended since
}

// look makes a command ready if it can run. Precondition: o.mu is held.
func (o *order) look(r *request) {
	if r.ready || !o.free(r) {
		return
	}
	r.ready = true
	o.ready = append(o.ready, r)
	if !o.runs {
		o.runs = true
		go o.run()
	}
}

// lookAt looks at those who wait for a name. Precondition: o.mu is held.
func (o *order) lookAt(n subject) {
	if p := o.places[n]; p != nil && len(p.waiting) > 0 {
		o.look(p.waiting[0])
	}
	o.tidy(n)
}

// next takes the next command that is ready; nil when there is none, and then the goroutine that
// asks must end. No other command may run until this one has.
func (o *order) next() *request {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.ready) > 0 {
		r := o.ready[0]
		o.ready[0] = nil
		o.ready = o.ready[1:]
		if o.free(r) {
			return r
		}
		r.ready = false // an operation has begun since; its end looks at the command again
	}
	o.ready, o.runs = nil, false
	return nil
}

// leave ends the wait of a command, which has run: those behind it may be next.
func (o *order) leave(r *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept -= len(r.rest)
	for _, c := range r.claims {
		p := o.places[c.subject]
		p.waiting[0] = nil
		p.waiting = p.waiting[1:]
	}
	for _, c := range r.claims {
		o.lookAt(c.subject)
	}
}

// begin begins an operation that holds what it claims until the returned function is called,
// which may be at once, from any goroutine. It must be called once.
func (o *order) begin(claims ...claim) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held++
	for _, c := range claims {
		if p := o.place(c.subject); c.alone {
			p.alone++
		} else {
			p.shared++
		}
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, c := range claims {
			if p := o.places[c.subject]; c.alone {
				p.alone--
			} else {
				p.shared--
			}
		}
		for _, c := range claims {
			o.lookAt(c.subject)
		}
		if o.held--; o.held == 0 {
			o.idle.Broadcast()
		}
	}
}

// drop gives up all commands that wait, and returns them.
func (o *order) drop() (dropped []*request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n, p := range o.places {
		for _, r := range p.waiting {
			if r.claims[0].subject == n { // it is in the places of its other claims, too
				dropped = append(dropped, r)
			}
		}
		p.waiting = nil
		o.tidy(n)
	}
	o.ready, o.kept = nil, 0
	return dropped
}

// settle waits until no operation is under way.
func (o *order) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.held > 0 {
		o.idle.Wait()
	}
}

package gpuvm

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
	"pvdrm/frontend/lowlevel"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
)

// referee decides by a policy of package sched, in virtual time: each use of the engine takes a
// millisecond, and none passes until all guests that are left wait.
type referee struct {
	mu     sync.Mutex
	policy *sched.Scheduler
	now    time.Duration
	guests map[sched.ID]chan struct{} // nil while it does not wait
	runs   sched.ID                   // 0 for none
	uses   map[sched.ID]int
}

func newReferee(t *testing.T, weights ...uint32) (*referee, []*seat) {
	s, err := sched.New("wfq", sched.Settings{}, 0)
	require.NoError(t, err)
	r := &referee{policy: s, guests: map[sched.ID]chan struct{}{}, uses: map[sched.ID]int{}}
	var seats []*seat
	for i, w := range weights {
		id := sched.ID(i + 1)
		require.NoError(t, s.Add(id, sched.Share{Weight: w}, 0))
		r.guests[id] = nil
		seats = append(seats, &seat{r: r, id: id})
	}
	return r, seats
}

// decide lets one run, where all wait. Preconditions: mu is held.
func (r *referee) decide() {
	for _, wait := range r.guests {
		if wait == nil || r.runs != 0 {
			return
		}
	}
	for len(r.guests) > 0 {
		d := r.policy.Next(r.now)
		if d.Run == 0 {
			r.now = max(r.now+time.Microsecond, d.Again)
			continue
		}
		r.runs = d.Run
		close(r.guests[d.Run])
		r.guests[d.Run] = nil
		return
	}
}

// leave takes a guest out.
func (r *referee) leave(id sched.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.policy.Remove(id, r.now)
	delete(r.guests, id)
	r.decide()
}

// seat is the gate of one VM.
type seat struct {
	gpu.Gate
	r  *referee
	id sched.ID
}

func (s *seat) Enter(gpu.Engine, bool) <-chan struct{} {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	wait := make(chan struct{})
	if _, ok := s.r.guests[s.id]; !ok { // it left: what it does now is not contended
		close(wait)
		return wait
	}
	s.r.guests[s.id] = wait
	_ = s.r.policy.Arrive(s.id, s.r.now) // an error: it is known
	s.r.decide()
	return wait
}

func (s *seat) Cancel(gpu.Engine) {}

func (s *seat) Wanted(gpu.Engine) bool { return true }

func (s *seat) Leave(_ gpu.Engine, used time.Duration, commands uint64, _ bool) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.uses[s.id] += int(commands)
	if _, ok := s.r.guests[s.id]; ok {
		s.r.now += time.Millisecond
		_ = s.r.policy.Complete(s.id, time.Millisecond, commands, true, s.r.now) // it waits before time goes on
	}
	if s.r.runs == s.id {
		s.r.runs = 0
	}
	s.r.decide()
}

// Submissions of VMs wait for their gates, and so a policy gives each VM its share of the card.
func TestSharesOfVMs(t *testing.T) {
	const submissions = 300
	a := newAggregator(t, 2, softgpu.Config{VRAMBytes: 128 << 20})
	r, seats := newReferee(t, 3, 1)
	var first, second int
	var wg sync.WaitGroup
	for i, s := range seats {
		vm, ram := newVM(t, a, "fv-opt", 8<<20)
		vm.Schedule(s)
		wg.Go(func() {
			defer r.leave(s.id)
			d, err := lowlevel.Open(lowlevel.Config{Bus: vm, RAM: ram, Base: vm.Base()})
			if !assertNil(t, err) {
				return
			}
			c, err := d.NewContext()
			if !assertNil(t, err) {
				return
			}
			va, err := c.Alloc(hw.SmallPage)
			assertNil(t, err)
			for range submissions {
				if !assertNil(t, c.Fill(va, 1, 16)) || !assertNil(t, c.Sync()) {
					return
				}
			}
			if i == 0 {
				r.mu.Lock()
				first, second = r.uses[seats[0].id], r.uses[seats[1].id]
				r.mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.InDelta(t, first, 3*second, 6, "uses of the card until the VM with three times the weight has ended")
	require.GreaterOrEqual(t, first, submissions-2, "each submission waits")
}

func assertNil(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// closedGate admits no guest until it is opened.
type closedGate struct {
	gpu.Gate
	opened  chan struct{}
	entered chan struct{} // gets one for each Enter
	left    chan uint64   // commands
	cancels int
}

func newClosedGate() *closedGate {
	return &closedGate{opened: make(chan struct{}), entered: make(chan struct{}, 16), left: make(chan uint64, 16)}
}

func (g *closedGate) Enter(gpu.Engine, bool) <-chan struct{} {
	g.entered <- struct{}{}
	return g.opened
}
func (g *closedGate) Cancel(gpu.Engine)                                     { g.cancels++ }
func (g *closedGate) Wanted(gpu.Engine) bool                                { return false }
func (g *closedGate) Leave(_ gpu.Engine, _ time.Duration, n uint64, _ bool) { g.left <- n }

// gated makes a VM behind a closed gate, of which a channel has a command that writes a word.
func gated(t *testing.T) (vm *VM, g *closedGate, done func() bool) {
	a := newAggregator(t, 2, softgpu.Config{VRAMBytes: 128 << 20})
	vm, _ = newVM(t, a, "fv", 8<<20)
	g = newClosedGate()
	vm.Schedule(g)
	mapAll(vm)
	bindChannel(vm, 0, atDirectory)
	const at = 0x60000
	fetch(vm, hw.OpRelease|4<<16, channelVA+at, 0, 77, 0)
	return vm, g, func() bool { return vm.agg.vram.Word(vm.base+at) == 77 }
}

// fetch puts command words where channel 0 fetches them from.
func fetch(vm *VM, words ...uint32) {
	for i := 0; i < len(words); i += 2 {
		w := uint64(words[i])
		if i+1 < len(words) {
			w |= uint64(words[i+1]) << 32
		}
		put(vm, atCommands+4*uint64(i), w)
	}
	put(vm, atIndirect, channelVA+atCommands|uint64(len(words))<<hw.IndirectShift)
}

// A channel runs nothing until the gate lets it, and then the gate is left.
func TestGateHoldsSubmissions(t *testing.T) {
	vm, g, done := gated(t)
	vm.Write(hw.BAR1, hw.ControlPut, 1)
	<-g.entered
	require.Zero(t, vm.Read(hw.BAR0, hw.RegState)&hw.StateBusy)
	require.False(t, done())
	close(g.opened)
	require.Equal(t, uint64(1), <-g.left)
	require.True(t, done())
}

// A channel that is taken out of the guest's run list waits, and so does one that is ended, which
// submits nothing.
func TestGateAndRunList(t *testing.T) {
	vm, g, done := gated(t)
	close(g.opened)
	set(vm, hw.RegRunListUpdate, 0)
	vm.Write(hw.BAR1, hw.ControlPut, 1)
	set(vm, hw.RegRunListUpdate, 1)
	require.Equal(t, uint64(1), <-g.left)
	require.True(t, done())
	require.Zero(t, len(g.left))
	set(vm, hw.RegRunListUpdate, 0)
	vm.Write(hw.BAR1, hw.ControlPut, 2)
	set(vm, hw.RegKill, 0)
	set(vm, hw.RegRunListUpdate, 1)
	require.Equal(t, -1, vm.queue.take(false))
}

// A VM that ends while it waits leaves the gate.
func TestGateAndEnd(t *testing.T) {
	vm, g, done := gated(t)
	vm.Write(hw.BAR1, hw.ControlPut, 1)
	<-g.entered
	vm.Close()
	require.Equal(t, 1, g.cancels)
	require.False(t, done())
	require.Zero(t, len(g.left))
}

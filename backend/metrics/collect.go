package metrics

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/session"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// Backend is what a backend has counted.
type Backend struct {
	Name   string // of the guest
	Device gpu.Stats
	Guest  session.GuestStats
	Gate   *arbiter.GateStats // nil without an arbiter
	GL     *virgl.Stats       // nil without a renderer
}

// AddBackend adds the metrics of a backend.
func (p *Page) AddBackend(b Backend) {
	for e, busy := range [arbiter.Engines]time.Duration{arbiter.Compute: b.Device.ComputeBusy, arbiter.Copy: b.Device.CopyBusy} {
		p.add("pvdrm_busy_seconds_total", busy.Seconds(), b.Name, arbiter.Engine(e).String())
	}
	p.add("pvdrm_compute_asleep_seconds_total", b.Device.ComputeAsleep.Seconds(), b.Name)
	t := b.Guest.Total
	for _, m := range []struct {
		name  string
		value uint64
	}{
		{"pvdrm_launches_total", b.Device.Launches},
		{"pvdrm_copied_bytes_total", b.Device.CopyBytes},
		{"pvdrm_preemptions_total", b.Device.Preemptions},
		{"pvdrm_replays_total", b.Device.Replays},
		{"pvdrm_driver_graphs_total", b.Device.Graphs},
		{"pvdrm_driver_graphs_refused_total", b.Device.GraphsApart},
		{"pvdrm_vram_bytes", b.Device.VRAM()},
		{"pvdrm_channels", uint64(b.Device.Channels)},
		{"pvdrm_clients", uint64(len(b.Guest.Clients))},
		{"pvdrm_doorbells_total", t.Doorbells},
		{"pvdrm_interrupts_total", t.Interrupts},
		{"pvdrm_requests_total", t.Requests},
		{"pvdrm_multicalls_total", t.Multicalls},
		{"pvdrm_granted_bytes_total", t.GrantedBytes},
		{"pvdrm_ptes_total", t.PTEs},
	} {
		p.add(m.name, float64(m.value), b.Name)
	}
	p.histogram("pvdrm_launch_seconds", &b.Device.LaunchTimes, b.Device.LaunchTime, b.Name)
	for _, cause := range slices.Sorted(maps.Keys(b.Guest.Lost)) {
		p.add("pvdrm_lost_contexts_total", float64(b.Guest.Lost[cause]), b.Name, cause)
	}
	for _, op := range b.Guest.Operations {
		p.add("pvdrm_operations_total", float64(op.Requests), b.Name, op.Operation)
		p.add("pvdrm_operation_errors_total", float64(op.Errors), b.Name, op.Operation)
	}
	for _, q := range b.Guest.Quotas {
		p.add("pvdrm_quota_used", float64(q.Used), b.Name, q.Resource)
		p.add("pvdrm_quota_refusals_total", float64(q.Refused), b.Name, q.Resource)
		if q.Resource == quota.Queued.String() {
			p.add("pvdrm_queue_depth", float64(q.Used), b.Name)
		}
	}
	if b.GL != nil {
		p.add("pvdrm_busy_seconds_total", b.GL.Busy.Seconds(), b.Name, "render")
		p.add("pvdrm_render_submits_total", float64(b.GL.Submits), b.Name)
		p.add("pvdrm_render_refusals_total", float64(b.GL.Failed), b.Name)
		p.add("pvdrm_renderers_lost_total", float64(b.GL.Lost), b.Name)
	}
	if b.Gate == nil {
		return
	}
	p.add("pvdrm_arbiter_joined", one(b.Gate.Joined), b.Name)
	for e := range arbiter.Engines {
		p.histogram("pvdrm_gate_wait_seconds", &b.Gate.Waits[e], b.Gate.Waited[e], b.Name, e.String())
	}
}

// AddArbiter adds the metrics of an arbiter.
func (p *Page) AddArbiter(gpus []arbiter.GPUStats) {
	for _, g := range gpus {
		n := strconv.Itoa(g.Number)
		p.add("pvdrm_arbiter_policy", 1, n, g.Policy)
		p.add("pvdrm_arbiter_guests", float64(len(g.Guests)), n)
		for e, st := range g.Engines {
			labels := []string{n, arbiter.Engine(e).String()}
			p.add("pvdrm_arbiter_grants_total", float64(st.Grants), labels...)
			p.add("pvdrm_arbiter_revokes_total", float64(st.Revokes), labels...)
			p.add("pvdrm_arbiter_expired_total", float64(st.Expired), labels...)
		}
		for _, guest := range g.Guests {
			p.add("pvdrm_arbiter_weight", float64(max(guest.Share.Weight, 1)), n, guest.Name)
			for e := range guest.Engines {
				p.addSeat(&guest.Engines[e], n, guest.Name, arbiter.Engine(e).String())
			}
		}
	}
}

func (p *Page) addSeat(st *arbiter.GuestEngineStats, labels ...string) {
	p.add("pvdrm_arbiter_busy_seconds_total", st.Busy.Seconds(), labels...)
	p.add("pvdrm_arbiter_commands_total", float64(st.Commands), labels...)
	p.histogram("pvdrm_arbiter_wait_seconds", &st.Waits, st.Waited, labels...)
	p.add("pvdrm_arbiter_entitled_ratio", st.Fraction, labels...)
	p.add("pvdrm_arbiter_usage_ratio", st.Usage, labels...)
	p.add("pvdrm_arbiter_preemptions_total", float64(st.Preempted), labels...)
	p.add("pvdrm_arbiter_denials_total", float64(st.Denied), labels...)
	p.add("pvdrm_arbiter_implausible_total", float64(st.Implausible), labels...)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

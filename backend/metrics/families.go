package metrics

// Family is a metric with all its labels' values.
type Family struct {
	Name, Type string // counter, gauge or histogram
	Labels     string // separated by commas
	Help       string // one line
}

const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// families are all metrics, in the order in which they are written.
var families = []Family{
	{Name: "pvdrm_compute_asleep_seconds_total", Type: counter, Labels: "guest", Help: "Part of the time of the compute engine for which all threads of the guest on a multiprocessor slept (nanosleep), on average over those of the software GPU."},
	{Name: "pvdrm_busy_seconds_total", Type: counter, Labels: "guest, engine", Help: "Time for which the engine (compute, copy, or render: OpenGL) worked for the guest."},
	{Name: "pvdrm_launches_total", Type: counter, Labels: "guest", Help: "Kernels launched."},
	{Name: "pvdrm_launch_seconds", Type: histogram, Labels: "guest", Help: "Times that kernels took on the device, of those that have ended."},
	{Name: "pvdrm_copied_bytes_total", Type: counter, Labels: "guest", Help: "Bytes copied and filled by the copy engine."},
	{Name: "pvdrm_lost_contexts_total", Type: counter, Labels: "guest, cause", Help: "GPU contexts ended by a fault, or aborted at the launch limit (cause \"launch timed out\")."},
	{Name: "pvdrm_preemptions_total", Type: counter, Labels: "guest", Help: "Kernels and copies stopped to go on later, so that other guests, or other programs of the guest, got the engine."},
	{Name: "pvdrm_driver_graphs_total", Type: counter, Labels: "guest", Help: "Launches of graphs that NVIDIA's driver made of work which the guest submitted again and again."},
	{Name: "pvdrm_driver_graphs_refused_total", Type: counter, Labels: "guest", Help: "Such launches that ran as single commands, because the driver refused the graph."},
	{Name: "pvdrm_replays_total", Type: counter, Labels: "guest", Help: "GPU contexts made again to run their work again, after their worker process was ended or died; kernels that were revoked."},
	{Name: "pvdrm_queue_depth", Type: gauge, Labels: "guest", Help: "Batches that were accepted and have not ended."},
	{Name: "pvdrm_vram_bytes", Type: gauge, Labels: "guest", Help: "Device memory in use, page tables included, and what a driver takes for itself."},
	{Name: "pvdrm_channels", Type: gauge, Labels: "guest", Help: "Channels open."},
	{Name: "pvdrm_clients", Type: gauge, Labels: "guest", Help: "DRM files open."},
	{Name: "pvdrm_doorbells_total", Type: counter, Labels: "guest", Help: "Doorbells: every virtqueue kick, or wake-up by a local client."},
	{Name: "pvdrm_interrupts_total", Type: counter, Labels: "guest", Help: "Interrupts sent to the guest."},
	{Name: "pvdrm_requests_total", Type: counter, Labels: "guest", Help: "Ring entries."},
	{Name: "pvdrm_operations_total", Type: counter, Labels: "guest, operation", Help: "Ring entries by operation, as the protocol names them; \"unknown\" counts all others."},
	{Name: "pvdrm_operation_errors_total", Type: counter, Labels: "guest, operation", Help: "Ring entries that were answered with an error."},
	{Name: "pvdrm_multicalls_total", Type: counter, Labels: "guest", Help: "Runs of ring entries that were there at once."},
	{Name: "pvdrm_granted_bytes_total", Type: counter, Labels: "guest", Help: "Size of the objects made of granted pages."},
	{Name: "pvdrm_ptes_total", Type: counter, Labels: "guest", Help: "Pages of 4096 bytes mapped."},
	{Name: "pvdrm_quota_used", Type: gauge, Labels: "guest, resource", Help: "What the guest has of a resource now: bytes of vram, granted, module-text, module-image, module-memory and queued-bytes, else a number."},
	{Name: "pvdrm_quota_refusals_total", Type: counter, Labels: "guest, resource", Help: "Requests refused because the guest's quota was used up."},
	{Name: "pvdrm_render_submits_total", Type: counter, Labels: "guest", Help: "Command streams of the guest's OpenGL."},
	{Name: "pvdrm_render_refusals_total", Type: counter, Labels: "guest", Help: "Commands of the guest's OpenGL that failed."},
	{Name: "pvdrm_renderers_lost_total", Type: counter, Labels: "guest", Help: "Processes that rendered for the guest and crashed, hung or were killed."},
	{Name: "pvdrm_gate_wait_seconds", Type: histogram, Labels: "guest, engine", Help: "Waits for the arbiter of commands that could not begin at once: kernels, and parts of copies."},
	{Name: "pvdrm_arbiter_joined", Type: gauge, Labels: "guest", Help: "1 while the backend is joined to its arbiter, else 0."},
	{Name: "pvdrm_arbiter_policy", Type: gauge, Labels: "gpu, policy", Help: "1 for the policy in use."},
	{Name: "pvdrm_arbiter_guests", Type: gauge, Labels: "gpu", Help: "Backends that are connected."},
	{Name: "pvdrm_arbiter_grants_total", Type: counter, Labels: "gpu, engine", Help: "Tokens given."},
	{Name: "pvdrm_arbiter_revokes_total", Type: counter, Labels: "gpu, engine", Help: "Tokens taken back."},
	{Name: "pvdrm_arbiter_expired_total", Type: counter, Labels: "gpu, engine", Help: "Backends disconnected because they kept the token for too long."},
	{Name: "pvdrm_arbiter_weight", Type: gauge, Labels: "gpu, guest", Help: "Weight of the guest."},
	{Name: "pvdrm_arbiter_busy_seconds_total", Type: counter, Labels: "gpu, guest, engine", Help: "Engine time charged to the guest."},
	{Name: "pvdrm_arbiter_commands_total", Type: counter, Labels: "gpu, guest, engine", Help: "Commands run with a token."},
	{Name: "pvdrm_arbiter_wait_seconds", Type: histogram, Labels: "gpu, guest, engine", Help: "Waits for a token."},
	{Name: "pvdrm_arbiter_entitled_ratio", Type: gauge, Labels: "gpu, guest, engine", Help: "Part of the engine's time the guest is entitled to now; 0 while it is not active."},
	{Name: "pvdrm_arbiter_usage_ratio", Type: gauge, Labels: "gpu, guest, engine", Help: "Part of the engine's time used over the policy's window."},
	{Name: "pvdrm_arbiter_preemptions_total", Type: counter, Labels: "gpu, guest, engine", Help: "Commands that had to stop, so that other guests got the engine."},
	{Name: "pvdrm_arbiter_denials_total", Type: counter, Labels: "gpu, guest, engine", Help: "Free runs of dfq in which the guest was left out, because it had used too much."},
	{Name: "pvdrm_arbiter_implausible_total", Type: counter, Labels: "gpu, guest, engine", Help: "Claims of the backend to have used more time than there was."},
}

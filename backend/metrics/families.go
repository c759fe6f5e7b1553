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
	{"pvdrm_busy_seconds_total", counter, "guest, engine", "Time for which the engine (compute, copy, or render: OpenGL) worked for the guest."},
	{"pvdrm_launches_total", counter, "guest", "Kernels launched."},
	{"pvdrm_copied_bytes_total", counter, "guest", "Bytes copied and filled by the copy engine."},
	{"pvdrm_lost_contexts_total", counter, "guest, cause", "GPU contexts ended by a fault, or aborted at the launch limit (cause \"launch timed out\")."},
	{"pvdrm_replays_total", counter, "guest", "GPU contexts made anew to run their tasks again, after their worker process was ended or died."},
	{"pvdrm_queue_depth", gauge, "guest", "Batches that were accepted and have not ended."},
	{"pvdrm_vram_bytes", gauge, "guest", "Device memory in use, page tables included."},
	{"pvdrm_channels", gauge, "guest", "Channels open."},
	{"pvdrm_clients", gauge, "guest", "DRM files open."},
	{"pvdrm_doorbells_total", counter, "guest", "Doorbells: every virtqueue kick, or wake-up by a local client."},
	{"pvdrm_interrupts_total", counter, "guest", "Interrupts sent to the guest."},
	{"pvdrm_requests_total", counter, "guest", "Ring entries."},
	{"pvdrm_multicalls_total", counter, "guest", "Runs of ring entries that were there at once."},
	{"pvdrm_granted_bytes_total", counter, "guest", "Size of the objects made of granted pages."},
	{"pvdrm_ptes_total", counter, "guest", "Pages of 4096 bytes mapped."},
	{"pvdrm_quota_used", gauge, "guest, resource", "What the guest has of a resource now: bytes of vram, granted and module-text, else a number."},
	{"pvdrm_quota_refusals_total", counter, "guest, resource", "Requests refused because the guest's quota was used up."},
	{"pvdrm_render_submits_total", counter, "guest", "Command streams of the guest's OpenGL."},
	{"pvdrm_render_refusals_total", counter, "guest", "Commands of the guest's OpenGL that failed."},
	{"pvdrm_renderers_lost_total", counter, "guest", "Processes that rendered for the guest and crashed, hung or were killed."},
	{"pvdrm_gate_wait_seconds", histogram, "guest, engine", "Waits for the arbiter of commands that could not begin at once: kernels, and parts of copies."},
	{"pvdrm_arbiter_joined", gauge, "guest", "1 while the backend is joined to its arbiter, else 0."},
	{"pvdrm_arbiter_policy", gauge, "gpu, policy", "1 for the policy in use."},
	{"pvdrm_arbiter_guests", gauge, "gpu", "Backends that are connected."},
	{"pvdrm_arbiter_grants_total", counter, "gpu, engine", "Tokens given."},
	{"pvdrm_arbiter_revokes_total", counter, "gpu, engine", "Tokens taken back."},
	{"pvdrm_arbiter_expired_total", counter, "gpu, engine", "Backends disconnected because they kept the token for too long."},
	{"pvdrm_arbiter_weight", gauge, "gpu, guest", "Weight of the guest."},
	{"pvdrm_arbiter_busy_seconds_total", counter, "gpu, guest, engine", "Engine time charged to the guest."},
	{"pvdrm_arbiter_commands_total", counter, "gpu, guest, engine", "Commands run with a token."},
	{"pvdrm_arbiter_wait_seconds", histogram, "gpu, guest, engine", "Waits for a token."},
	{"pvdrm_arbiter_entitled_ratio", gauge, "gpu, guest, engine", "Part of the engine's time the guest is entitled to now; 0 while it is not active."},
	{"pvdrm_arbiter_usage_ratio", gauge, "gpu, guest, engine", "Part of the engine's time used over the policy's window."},
	{"pvdrm_arbiter_implausible_total", counter, "gpu, guest, engine", "Claims of the backend to have used more time than there was."},
}

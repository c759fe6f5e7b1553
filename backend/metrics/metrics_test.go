package metrics

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sched"
	"pvdrm/backend/session"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// full is a page with samples of all families.
func full() *Page {
	var p Page
	p.AddBackend(Backend{
		Name:   `a"\` + "\n",
		Device: gpu.Stats{ComputeBusy: 1500 * time.Millisecond, Launches: 7, LaunchTimes: gpu.Histogram{3: 7}, LaunchTime: 42 * time.Microsecond},
		Guest: session.GuestStats{Lost: map[string]uint64{gpu.LostTimeout.String(): 1},
			Operations: []session.OpStats{{Operation: "exec", Requests: 9, Errors: 2}},
			Quotas:     []quota.Stats{{Resource: "vram", Used: 4096, Refused: 3}, {Resource: "queued", Used: 5}}},
		Gate: &arbiter.GateStats{Joined: true, Waits: [arbiter.Engines]gpu.Histogram{arbiter.Compute: {2: 4}},
			Waited: [arbiter.Engines]time.Duration{arbiter.Compute: 9 * time.Microsecond}},
		GL: &virgl.Stats{Busy: time.Second, Submits: 5},
	})
	st := arbiter.GuestStats{Name: "b", Share: sched.Share{Weight: 30}}
	st.Engines[arbiter.Compute].Waits = gpu.Histogram{0: 1, 3: 2}
	st.Engines[arbiter.Compute].Waited = 10 * time.Microsecond
	p.AddArbiter([]arbiter.GPUStats{{Policy: "band", Guests: []arbiter.GuestStats{st}}})
	return &p
}

func text(t *testing.T, p *Page) string {
	t.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func TestPage(t *testing.T) {
	got := text(t, full())
	for _, line := range []string{
		"# TYPE pvdrm_busy_seconds_total counter",
		`pvdrm_busy_seconds_total{engine="compute",guest="a\"\\\n"} 1.5`,
		`pvdrm_busy_seconds_total{engine="render",guest="a\"\\\n"} 1`,
		`pvdrm_lost_contexts_total{cause="launch timed out",guest="a\"\\\n"} 1`,
		`pvdrm_quota_refusals_total{guest="a\"\\\n",resource="vram"} 3`,
		`pvdrm_operations_total{guest="a\"\\\n",operation="exec"} 9`,
		`pvdrm_operation_errors_total{guest="a\"\\\n",operation="exec"} 2`,
		`pvdrm_queue_depth{guest="a\"\\\n"} 5`,
		`pvdrm_gate_wait_seconds_bucket{engine="compute",guest="a\"\\\n",le="2e-06"} 0`,
		`pvdrm_gate_wait_seconds_bucket{engine="compute",guest="a\"\\\n",le="4e-06"} 4`,
		`pvdrm_launch_seconds_bucket{guest="a\"\\\n",le="4e-06"} 0`,
		`pvdrm_launch_seconds_bucket{guest="a\"\\\n",le="8e-06"} 7`,
		`pvdrm_launch_seconds_sum{guest="a\"\\\n"} 4.2e-05`,
		`pvdrm_gate_wait_seconds_sum{engine="compute",guest="a\"\\\n"} 9e-06`,
		`pvdrm_gate_wait_seconds_count{engine="copy",guest="a\"\\\n"} 0`,
		`pvdrm_arbiter_wait_seconds_bucket{engine="compute",gpu="0",guest="b",le="1e-06"} 1`,
		`pvdrm_arbiter_wait_seconds_bucket{engine="compute",gpu="0",guest="b",le="8e-06"} 3`,
		`pvdrm_arbiter_wait_seconds_bucket{engine="compute",gpu="0",guest="b",le="+Inf"} 3`,
		`pvdrm_arbiter_wait_seconds_sum{engine="compute",gpu="0",guest="b"} 1e-05`,
	} {
		require.Contains(t, got, line+"\n")
	}
}

// Every line is of the text format, and every listed family is there with the
// labels that the list says.
func TestFormat(t *testing.T) {
	got := text(t, full())
	line := regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+\{([a-z]+="([^"\\]|\\.)*",?)+\} [0-9.e+-]+)$`)
	for l := range strings.Lines(got) {
		require.Regexp(t, line, strings.TrimSuffix(l, "\n"))
	}
	label := regexp.MustCompile(`([a-z]+)="`)
	for _, f := range families {
		sample := regexp.MustCompile(`(?m)^` + f.Name + `(_sum)?\{.*$`).FindString(got)
		require.NotEmpty(t, sample, f.Name)
		var labels []string
		for _, m := range label.FindAllStringSubmatch(sample, -1) {
			labels = append(labels, m[1])
		}
		require.ElementsMatch(t, strings.Split(f.Labels, ", "), labels, f.Name)
		require.Equal(t, f.Type == counter, strings.HasSuffix(f.Name, "_total"), f.Name)
	}
}

// Each operation of the ring has its counters, from the first scrape on.
func TestOperations(t *testing.T) {
	var p Page
	p.AddBackend(Backend{Name: "a", Guest: new(session.Group).Stats()})
	got := text(t, &p)
	for _, row := range hypercall.Ops {
		require.Contains(t, got, `pvdrm_operations_total{guest="a",operation="`+row.Name+`"} 0`+"\n")
		require.Contains(t, got, `pvdrm_operation_errors_total{guest="a",operation="`+row.Name+`"} 0`+"\n")
	}
	require.Equal(t, hypercall.Rows, strings.Count(got, "pvdrm_operations_total{"))
}

// Two guests of one name, and a name that is no text, take nothing from the others.
func TestNamesOfGuests(t *testing.T) {
	var p Page
	p.AddBackend(Backend{Name: "a", Device: gpu.Stats{Launches: 1}})
	p.AddBackend(Backend{Name: "a", Device: gpu.Stats{Launches: 2}})
	p.AddBackend(Backend{Name: "b\xff", Device: gpu.Stats{Launches: 3}})
	got := text(t, &p)
	require.Contains(t, got, `pvdrm_launches_total{guest="a"} 1`+"\n")
	require.Contains(t, got, `pvdrm_launches_total{guest="b�"} 3`+"\n")
}

func TestOnlyListedMetrics(t *testing.T) {
	require.Panics(t, func() { new(Page).add("pvdrm_unknown", 1) })
}

// docs/scheduling.md has a row for each family, and no other.
func TestDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/scheduling.md")
	require.NoError(t, err)
	var want []string
	for _, f := range families {
		want = append(want, "| `"+f.Name+"` | "+f.Type+" | "+f.Labels+" | "+f.Help+" |")
	}
	require.Equal(t, want, regexp.MustCompile("(?m)^\\| `pvdrm_.*$").FindAllString(string(doc), -1))
}

func TestServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics")
	for _, addr := range []string{":0", "unix:" + path} {
		l, err := Listen(addr)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		Serve(ctx, l, func(p *Page) { p.AddBackend(Backend{Name: "a"}) })
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial(l.Addr().Network(), l.Addr().String())
		}}}
		res, err := client.Get("http://host/metrics")
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Contains(t, string(body), `pvdrm_launches_total{guest="a"} 0`)
		require.Contains(t, res.Header.Get("Content-Type"), "version=0.0.4")
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			require.True(t, tcp.IP.IsLoopback())
		}
		cancel()
		require.Eventually(t, func() bool {
			c, err := net.Dial(l.Addr().Network(), l.Addr().String())
			if err == nil {
				_ = c.Close() // was a question only
			}
			return err != nil
		}, 5*time.Minute, time.Millisecond)
	}
}

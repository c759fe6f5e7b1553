package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pvdrm/backend/carrier/local"
)

// Limits of the HTTP server: nobody who dawdles is kept.
const (
	readLimit  = 5 * time.Second
	writeLimit = 10 * time.Second
	maxHeader  = 16 << 10 // bytes
)

// Listen listens where metrics are to be served: HOST:PORT, :PORT on the
// loopback interface only, or unix:PATH, for its owner only.
func Listen(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		l, err := local.ListenUnix("unix", path) // in the place of one that was left behind
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		const ownerOnly = 0o600
		if err := os.Chmod(path, ownerOnly); err != nil {
			return nil, errors.Join(fmt.Errorf("metrics: %w", err), l.Close())
		}
		return l, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("metrics at %q: %w (give HOST:PORT, :PORT or unix:PATH)", addr, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return l, nil
}

// ServeHTTP answers a request with the page. Where two guests have one name, the first
// counts.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(p)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
}

// Serve serves /metrics on l until ctx ends, in the background. collect fills
// the page for each request; it may be called from several goroutines.
func Serve(ctx context.Context, l net.Listener, collect func(*Page)) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		var p Page
		collect(&p)
		p.ServeHTTP(w, r)
	})
	server := &http.Server{Handler: mux, ReadTimeout: readLimit, WriteTimeout: writeLimit, MaxHeaderBytes: maxHeader}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // which closes l, too
	go func() { _ = server.Serve(l) }()                   // it ends when it is closed
}

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/metrics"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// What a backend that was taken over says of itself changes neither a terminal nor what
// is told of others.
func TestHostileStatistics(t *testing.T) {
	const text = `{"pid":1,"name":"guest-2","kind":"\u001b[2J","guest":{
		"clients":[{"client":"a\u009b31m\u202e\nb"}],
		"quotas":[{"resource":"vram","used":1},{"resource":"vram","used":2},{"resource":"\u001b[2J"},{"resource":"granted"}],
		"lost":{"trap":3,"a\"} 1\npvdrm_launches_total{guest=\"guest-2":7}}}`
	var st backendStats
	require.NoError(t, json.Unmarshal([]byte(text), &st))
	st.clean()
	require.Equal(t, `a\u009b31m\u202e\nb`, st.Guest.Clients[0].Client)
	require.Equal(t, []quota.Stats{{Resource: "vram", Used: 1}, {Resource: "granted"}}, st.Guest.Quotas)
	require.Equal(t, map[string]uint64{gpu.LostTrap.String(): 3}, st.Guest.Lost)
	st.Name, st.Kind = "guest-1", "vm" // as the parent knows them
	var p metrics.Page
	addMetrics(&p, st)
	var out strings.Builder
	answer := httptest.NewRecorder()
	p.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	out.WriteString(answer.Body.String())
	require.Contains(t, out.String(), `guest="guest-1"`)
	require.NotContains(t, out.String(), "guest-2")
	seen := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		name, _, _ := strings.Cut(line, "} ")
		require.False(t, seen[name] && !strings.HasPrefix(line, "#"), "%s twice", name)
		seen[name] = true
	}
	out.Reset()
	require.NoError(t, printStats(&out, []backendStats{st}, false))
	for _, r := range out.String() {
		require.True(t, r == '\n' || r >= ' ' && r < 0x7f, "%q", out.String())
	}
}

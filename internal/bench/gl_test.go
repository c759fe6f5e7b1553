package bench

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGLReport(t *testing.T) {
	rows := GLRows([]GLSample{
		{Scene: "b", Place: GLSoftware, Round: 1, Renderer: "llvmpipe", Milliseconds: 40},
		{Scene: "b", Place: GLVirgl, Round: 1, Renderer: "virgl", Milliseconds: 4},
		{Scene: "b", Place: GLQEMU, Round: 1, Renderer: "virgl", Milliseconds: 5},
		{Scene: "b", Place: GLHost, Round: 1, Renderer: "llvmpipe", Milliseconds: 2},
		{Scene: "b", Place: GLSoftware, Round: 2, Renderer: "llvmpipe", Milliseconds: 48},
		{Scene: "b", Place: GLVirgl, Round: 2, Renderer: "virgl", Milliseconds: 6},
		{Scene: "b", Place: GLQEMU, Round: 2, Renderer: "virgl", Milliseconds: 6},
		{Scene: "b", Place: GLHost, Round: 2, Renderer: "llvmpipe", Milliseconds: 2.4},
		{Scene: "b", Place: GLSoftware, Round: 3, Renderer: "llvmpipe", Milliseconds: 15},
		{Scene: "b", Place: GLVirgl, Round: 3, Renderer: "virgl", Milliseconds: 5},
		{Scene: "b", Place: GLQEMU, Round: 3, Renderer: "virgl", Milliseconds: 1},
		{Scene: "a", Place: GLVirgl, Round: 1, Renderer: "virgl", Milliseconds: 3},
		{Scene: "a", Place: GLSoftware, Round: 1, Renderer: "llvmpipe", Milliseconds: 120},
		{Scene: "a", Place: GLVirglPair, Round: 1, Renderer: "virgl", Milliseconds: 4},
		{Scene: "a", Place: GLQEMUPair, Round: 1, Renderer: "virgl", Milliseconds: 5},
	})
	require.Len(t, rows, 2)
	require.Equal(t, "b", rows[0].Scene, "in the order of drawing")
	require.Equal(t, GLCell{Renderer: "virgl", Median: 5, P10: 4.2, P90: 5.8, Runs: 3}, rows[0].Cells[GLVirgl])
	require.Equal(t, [4]float64{8, 1, 2.25, 0}, rows[0].ratios())
	require.Equal(t, [4]float64{40, 0, 0, 0.8}, rows[1].ratios())

	r := GLReport{Rows: rows, Absent: map[GLPlace]string{GLQEMU: "no window"}, Header: Header{Facts: []Fact{{"host", "a machine"}}}}
	var text, data bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	for _, want := range []string{"8.0x", "40.0x", "17.9x", "qemu-virgl: not measured: no window", "pvdrm-virgl: virgl\n", "host: a machine\n",
		"met: frames against llvmpipe in the guest: 17.9x (at least 8x faster)\n", "met: time of a frame against QEMU's virtio-gpu-gl: 1.00 (at most 1.10 of it)\n",
		"met: the same, two machines at once: 0.80 (at most 1.00 of it)\n"} {
		require.Contains(t, text.String(), want)
	}
	var page bytes.Buffer
	require.NoError(t, r.WriteHTML(&page))
	for _, want := range []string{"<td>40.0x<td>-<td>-<td>0.80", "<th>host<td>a machine", "<th>qemu-virgl<td>not measured: no window", `class="met">met<td>frames`} {
		require.Contains(t, page.String(), want)
	}
	require.NoError(t, r.WriteJSON(&data))
	var back GLReport
	require.NoError(t, json.Unmarshal(data.Bytes(), &back))
	require.Equal(t, r.Rows, back.Rows)
}

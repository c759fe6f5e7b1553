package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	ptxexec "pvdrm/gpu/softgpu/exec"
)

// Where nothing would be counted, the option is refused.
func TestKernelCountsRefused(t *testing.T) {
	soft := deviceFlags{counts: true, box: sandboxOn, weight: 1}
	require.NotContains(t, fmt.Sprint(soft.check()), "--kernel-counts")
	nvidia := soft
	require.NoError(t, nvidia.device.Set("cuda:1"))
	require.NotContains(t, fmt.Sprint(nvidia.check()), "--kernel-counts", "its graphs are counted")
	card := cardFlags{mode: interfaceSideCore, traps: trapsDoorbell, partition: partitionStatic, vms: 1}
	require.ErrorContains(t, card.check(&soft), "leave --kernel-counts out")
	soft.counts = false
	require.NoError(t, card.check(&soft))
}

// What is logged of kernels has bounds, and names the causes, the most frequent first.
func TestLogTally(t *testing.T) {
	rows := make([]ptxexec.Tallied, 30)
	for i := range rows {
		rows[i].Kernel = fmt.Sprintf("k%d\n", i)
	}
	first := &rows[0]
	first.Launches, first.Entered = 2, 8
	first.Interpreted[0], first.Interpreted[ptxexec.CauseOperation] = 1, 5
	for n := range int32(4) {
		first.Lines = append(first.Lines, ptxexec.Line{Number: 10 + n})
	}
	core, seen := observer.New(zapcore.WarnLevel)
	logTally(zap.New(core), rows)
	require.Equal(t, 21, seen.Len())
	require.Equal(t, `kernel k0?: launches: 2; native code entered: 8; instructions of warps interpreted: 6: `+
		`5 operations that are not compiled (PTX line 10, 11, 12), 1 no native code on this machine`, seen.All()[0].Message)
	require.Equal(t, `kernel k1?: launches: 0; native code entered: 0; instructions of warps interpreted: 0`, seen.All()[1].Message)
	require.Equal(t, "10 more kernels, of which less was interpreted", seen.All()[20].Message)
}

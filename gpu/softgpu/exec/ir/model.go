package ir

import "sync/atomic"

// Model is the time of a launch of a program that CompileTimed made: not what
// the host took, but cycles by the class of each instruction that a warp runs.
// It depends on neither the host nor the number of workers, but for kernels
// whose blocks or warps wait for each other in loops.
//
// Each basic block that a warp enters costs what the table below says for all
// its instructions; warps of a multiprocessor take turns and hide nothing.
// Block n runs on multiprocessor n mod SMs, and the launch takes as long as the
// one that has most to do. The numbers are round ones, in the proportions of
// throughputs that the CUDA C++ Programming Guide gives for compute capability
// 7.0 ("Arithmetic Instructions"); they are for tests, not for predictions.
type Model struct {
	// Limit ends the kernel with gpu.LostTimeout when a multiprocessor has used
	// more cycles; 0 for none.
	Limit uint64

	sms []atomic.Uint64 // cycles so far
}

// NewModel makes a model of a device with so many multiprocessors, for one launch.
func NewModel(sms int, limit uint64) *Model {
	return &Model{Limit: limit, sms: make([]atomic.Uint64, max(sms, 1))}
}

// Cycles is how long the launch took.
func (m *Model) Cycles() (most uint64) {
	for i := range m.sms {
		most = max(most, m.sms[i].Load())
	}
	return most
}

// Add counts cycles of a block, and returns those of its multiprocessor so far.
func (m *Model) Add(block, cycles uint64) uint64 {
	return m.sms[block%uint64(len(m.sms))].Add(cycles)
}

// Counts returns the cycles of each multiprocessor.
func (m *Model) Counts() []uint64 {
	counts := make([]uint64, len(m.sms))
	for i := range m.sms {
		counts[i] = m.sms[i].Load()
	}
	return counts
}

// SetCounts makes the multiprocessors go on from Counts of another model. It reports
// whether that has as many.
func (m *Model) SetCounts(counts []uint64) bool {
	if len(counts) != len(m.sms) {
		return false
	}
	for i, n := range counts {
		m.sms[i].Store(n)
	}
	return true
}
